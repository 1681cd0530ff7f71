"""The controller: reconciles resources into ConfigMaps, RBAC and status for their gateways.

`steps` is the visible list of what a reconcile does. This package wires others
together; decisions are in pure modules of its subpackages.
"""
