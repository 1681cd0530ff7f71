"""Everything that knows Ignition: the gateway's API, its scan lock, its files, and verification after a sync.

This package knows neither custom resources nor Kubernetes; the caller provides an address, an API
key and a data folder.
"""
