"""An object as a file: which fields are kept, as which YAML, at which path, and what of a Secret."""
