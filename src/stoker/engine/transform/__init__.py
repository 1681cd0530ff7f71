"""Content changes between repository and gateway: templates, JSON and YAML edits, tag names, text merge."""
