"""A gateway with the nasty sides of a real one: its API, its scans, its locks, the people who work on it."""
