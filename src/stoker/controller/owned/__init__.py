"""Objects that the controller applies for a resource: ConfigMaps, RBAC, tokens, volumes, fetchers."""
