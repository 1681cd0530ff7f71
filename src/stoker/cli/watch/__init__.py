"""`stoker sync --watch`: the agent's loop on a machine without a cluster, and what is served beside it."""
