"""Informers: list and watch of one kind into a cache, resumed after every failure."""
