"""Configuration that flows both ways between Git and what runs."""

__version__ = "0.1.0"
