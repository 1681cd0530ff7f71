"""Informers: list and watch of one kind into a store, resumed after every failure."""
