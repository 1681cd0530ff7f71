"""The internal model that every kind of resource is translated into.

`IgnitionSync`, `Stoker` with its `SyncProfile`, and a file on disk differ only
in their adapter (`stoker.api.to_intent`). Behind it there is a `ResourceIntent`,
what the operator does for a resource as a whole, and a `GatewayIntent`, what one
gateway's files must be; nothing there depends on the kind.
"""
