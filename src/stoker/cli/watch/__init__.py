"""`stoker sync --watch`: the agent's loop without a cluster, and its dashboard."""
