"""Http server."""
