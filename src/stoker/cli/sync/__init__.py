"""Verbs for a folder and its gateway on this machine: sync, plan, verify, rollback, dev."""
