"""The test gateway's HTTP API, its request log, and control routes for tests."""
