"""A real Kubernetes node on this machine, inside Linux namespaces: containerd, kubelet, kube-proxy, CNI."""
