"""Generates CRDs, chart files and reference pages from the typed models."""
