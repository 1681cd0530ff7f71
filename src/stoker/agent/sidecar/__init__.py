"""The agent as a sidecar: reads the controller's desired state from ConfigMaps and mounted Secrets."""
