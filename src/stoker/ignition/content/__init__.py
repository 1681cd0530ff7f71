"""Ignition files: projects, resource.json, tags, modules, and differences without meaning."""
