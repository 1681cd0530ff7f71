"""Verbs about resources in a cluster, for people: how they stand, what they did, and holding them still."""
