"""Checks of the documentation that run none of its commands: links, options, manifests, metrics."""
