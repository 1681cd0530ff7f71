"""Resolves refs to commits in the background, sharing one lookup among equal sources."""
