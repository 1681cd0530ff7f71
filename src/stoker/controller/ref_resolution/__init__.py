"""Resolves refs to commits beside the reconciler, sharing one lookup among equal sources."""
