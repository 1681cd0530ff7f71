"""Writes to Git: one worker per branch with its Lease, outbox, batches, commits, pushes and pruning."""
