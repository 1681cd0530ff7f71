"""Going back: a copy before each change, and the way from a copy to the files that were.

snapshotting   takes the copy, as a hook around the change
restoring      puts a copy back, through the same plan, staging, ledger and hooks as a sync
judging        tells whether a gateway fails because of a change
undoing        takes a change back that made a gateway fail, and keeps its commit out
"""
