"""Inputs that another party writes, and the properties that hold for every one of them."""
