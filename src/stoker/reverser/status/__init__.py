"""Conditions and Events of the reverser's four kinds."""
