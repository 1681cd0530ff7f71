"""Commit signatures and history rules: which commits are accepted, and signing Stoker's own commits."""
