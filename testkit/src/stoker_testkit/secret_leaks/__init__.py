"""Records every credential that tests hand out, and scans what a test run leaves for them."""
