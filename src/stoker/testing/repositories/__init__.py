"""Bare repositories, good and evil, and the servers of git over http and ssh."""
