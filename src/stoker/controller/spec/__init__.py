"""Loads a resource: inheritance, defaults, references, the ref in effect, fields without effect."""
