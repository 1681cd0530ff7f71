"""The Kubernetes API: client, watches, work queue and leader election. Knows none of our custom resources.

config    address of the API server, credentials
client    one request, the verbs, discovery
watch     list and watch into a cache
runtime   work queue, controller loop, conditions
leader    leases and fenced writes
events    Events, aggregated
"""
