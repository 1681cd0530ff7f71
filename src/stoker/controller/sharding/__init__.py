"""Sharding: several controllers divide the namespaces, even while their number changes."""
