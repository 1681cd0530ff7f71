"""What `stoker doctor` looks at in a cluster: chains of checks, each of which reads and never writes."""
