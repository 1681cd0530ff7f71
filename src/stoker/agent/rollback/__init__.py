"""Rollback: take a snapshot before each change, and restore it after a failure or on request.

snapshot_hook  takes the snapshot before files are applied
triggers       decides whether the gateway fails because of the change
restore        writes a snapshot back through the same plan, staging, ledger and hooks as a sync
rollback       undoes a change that made the gateway fail, and blocks its commit
"""
