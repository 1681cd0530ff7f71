"""What goes into git: one worker to a branch, its Lease, outboxes, commits, pushes, and the sweep."""
