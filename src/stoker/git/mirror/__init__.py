"""Bare mirrors on disk: layout, repair, reading, cleanup."""
