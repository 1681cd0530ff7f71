"""Reads the cluster: served kinds, rules and destinations, and a watch for each selected kind."""
