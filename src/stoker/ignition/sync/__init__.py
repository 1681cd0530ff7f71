"""What a sync does around a gateway: wait until it is ready, lock, scan, restart, verify, redundancy."""
