"""The gateway's HTTP API: address, API key, requests, parsed responses."""
