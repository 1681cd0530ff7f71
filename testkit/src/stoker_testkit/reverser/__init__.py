"""Reverser processes under test: replicas behind fault proxies, random histories, commit checks."""
