"""Docs runner."""
