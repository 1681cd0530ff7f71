"""Annotations on pods and resources: their names, their values and the requests in them."""
