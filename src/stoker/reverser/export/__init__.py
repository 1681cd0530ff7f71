"""The same once, for a person: to a folder or to a branch, without anything installed in the cluster."""
