"""The controller's informers and object cache: resources, pods, ConfigMaps, reports, Secrets."""
