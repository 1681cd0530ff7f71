"""One sync of one folder: open the source, plan, run hooks, apply, and report the outcome."""
