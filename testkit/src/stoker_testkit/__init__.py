"""Servers, doubles and fixtures for tests and for the demo; modules at this level are used by all of them."""
