"""The Kubernetes API: client, watches, work queue and leader election. Knows none of our custom resources.

config    where the API server is and who we are
client    one request, the verbs, discovery
watch     list and watch into a store
runtime   work queue, controller loop, conditions
leader    leases and fenced writes
events    Events, aggregated
"""
