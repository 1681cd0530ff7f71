"""Verbs about a folder and its gateway on this machine: options or manifests become an order that is kept."""
