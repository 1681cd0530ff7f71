"""Leader election by Lease, and a client that refuses writes once the lease is lost."""
