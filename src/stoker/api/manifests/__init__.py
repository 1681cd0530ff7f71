"""Reads manifests: bounded YAML, decoding into kinds, and validation with field paths."""
