"""Commit signatures: which commits are accepted, by whom they must be signed, and signing our own."""
