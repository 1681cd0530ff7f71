"""`stoker migrate`: translates another tool's configuration, and names what it cannot translate."""
