"""GitOps in both directions: Git to Ignition gateways, and a Kubernetes cluster to Git."""

__version__ = "0.1.0"
