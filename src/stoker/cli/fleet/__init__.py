"""Verbs for resources in a cluster: status, history, approve, pause and resume."""
