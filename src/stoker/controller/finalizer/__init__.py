"""Deletion of a resource, and uninstalling the operator: cleanup and finalizer removal."""
