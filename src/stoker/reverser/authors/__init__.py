"""Find the author of a change: recorded at admission, shared among replicas, joined with watch events."""
