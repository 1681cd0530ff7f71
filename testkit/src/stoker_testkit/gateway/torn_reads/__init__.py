"""Detects half-written resources: readers that record every state of the data folder they see."""
