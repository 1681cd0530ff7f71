"""Bare copies on disk: how they lie, are healed, read and tidied away."""
