"""Values, errors and reasons that every package shares, on the standard library alone."""
