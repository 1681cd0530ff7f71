"""Requests to the API server: transport, verbs, paging, discovery, rate limit, errors."""
