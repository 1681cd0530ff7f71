"""Git to gateways, seen from the cluster: what happens to a resource, as a visible list of steps.

It wires other rooms together and holds no algorithm of its own.
"""
