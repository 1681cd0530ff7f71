"""A remote repository: resolve a ref, probe, and fetch what is missing."""
