"""The one internal model that every front door is turned into.

`IgnitionSync`, `Stoker` with its `SyncProfile`, and a file on disk differ only
in their adapter (`stoker.api.to_intent`). Past the adapter there is a
`ResourceIntent`, what the operator does for a resource as a whole, and a
`GatewayIntent`, what one gateway's files shall be; nothing there can tell which
kind it came from.
"""
