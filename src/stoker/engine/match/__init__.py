"""Glob and pattern matching of paths."""
