"""The gateway's part of a sync: wait until it is ready, lock, scan, restart, verify, redundancy."""
