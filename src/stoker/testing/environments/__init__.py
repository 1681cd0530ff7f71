"""Whole scenes: an agent with its gateway, a controller with its cluster, a site with people and a forge."""
