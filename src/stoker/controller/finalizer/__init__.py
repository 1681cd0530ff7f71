"""The end of a resource, and of the operator."""
