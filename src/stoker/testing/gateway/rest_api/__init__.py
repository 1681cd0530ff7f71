"""Rest api."""
