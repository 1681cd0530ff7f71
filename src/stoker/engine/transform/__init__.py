"""Content changes on the way to a gateway: templates, JSON and YAML edits, tag providers, text merge."""
