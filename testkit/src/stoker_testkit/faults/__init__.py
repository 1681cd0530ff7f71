"""Fault injection: failpoints that end a process, and proxies that break TCP or HTTP."""
