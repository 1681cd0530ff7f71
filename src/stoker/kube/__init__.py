"""The Kubernetes API: how to reach it, what it answers, what it holds, and what to do when it changes.

Reading order: `config` and `credentials` say where the server is and who we
are; `transport` carries one request; `client` has the verbs; `discovery` finds
out what the server serves; above those stand list and watch, the work queue
and the controller loop. Nothing in this package knows a custom resource of ours.
"""
