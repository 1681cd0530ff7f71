"""Files from a registry of OCI artifacts or from a bucket."""
