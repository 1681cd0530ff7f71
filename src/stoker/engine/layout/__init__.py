"""From mappings and overlays to desired files: paths, collisions, protected paths, and the reverse map."""
