"""The admission webhook as processes that a real API server calls, with its configurations and roles."""
