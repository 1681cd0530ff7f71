"""Actions and queries on resources in a cluster, shared by the command line and the dashboard.

Functions over an API client that act with that client's own identity. Nothing here
knows options, tables or pages, and nothing is written that `kubectl` could not write.
"""
