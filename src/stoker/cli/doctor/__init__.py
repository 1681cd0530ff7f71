"""`stoker doctor` in a cluster: chains of checks that read and never write."""
