"""Logs, metrics, probes and traces."""
