"""Address of the API server and credentials: kubeconfig, service account, exec plugins, TLS, proxy."""
