"""Finds, downloads or builds programs that no Python package ships, from pinned Go modules."""
