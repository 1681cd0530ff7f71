"""Credentials that tests hand out, and the look at the end of a run for any that was seen elsewhere."""
