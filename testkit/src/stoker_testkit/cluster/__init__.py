"""A real control plane (etcd, kube-apiserver), its audit log, and evaluators of status and policies."""
