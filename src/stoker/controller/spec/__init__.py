"""From an object to what is meant: inheritance, defaults, requests, and whether all of it can be."""
