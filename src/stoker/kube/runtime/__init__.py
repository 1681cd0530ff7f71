"""The controller loop: work queue, backoff, results, conditions, and the process around it."""
