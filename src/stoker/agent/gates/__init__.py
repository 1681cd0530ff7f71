"""Conditions that hold up a sync: maintenance windows and validation webhooks."""
