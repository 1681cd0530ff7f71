"""Torn reads."""
