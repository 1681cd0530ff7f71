"""What a resource's gateways are given: maps, rights, tokens, volumes, fetchers."""
