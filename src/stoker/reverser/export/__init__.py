"""One-time export of a cluster to a folder or a branch, with nothing installed in the cluster."""
