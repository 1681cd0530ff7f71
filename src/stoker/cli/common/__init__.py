"""Shared by all verbs: options, output as text or JSON, progress, error messages and exit codes."""
