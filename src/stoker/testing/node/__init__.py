"""A whole Kubernetes node on this machine: containers, kubelet, proxy and network."""
