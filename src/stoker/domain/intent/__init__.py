"""The internal model that every kind of resource is translated into.

`IgnitionSync`, `Stoker` with its `SyncProfile`, and a file on disk differ only in their
adapter (`stoker.api.to_intent`). The adapter produces a `ResourceIntent`, which describes
the operator's work for a resource as a whole, and a `GatewayIntent`, which describes the
files of one gateway. No code that uses these values depends on the kind.
"""
