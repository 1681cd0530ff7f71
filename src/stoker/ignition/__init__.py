"""Everything that knows Ignition: the gateway's own API, its scan lock, what it must show after a sync.

Knows neither custom resources nor Kubernetes; who wires it to a pass hands it an
address, a key and a data folder.
"""
