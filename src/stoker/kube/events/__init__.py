"""Records Kubernetes Events, with equal ones aggregated into a series."""
