"""Pure decisions of a sync: which files a commit means, how they are transformed, and the plan. No I/O."""
