"""The agent as a sidecar: reads what the controller wants from ConfigMaps and mounted Secrets."""
