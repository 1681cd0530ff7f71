"""What the cluster holds, as much of it as is decided by: resources, pods, maps, reports."""
