"""Verbs that run until they are told to stop: the roles of the product, each from its options."""
