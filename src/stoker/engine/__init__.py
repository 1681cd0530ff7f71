"""Pure decisions of a sync: which files a commit delivers, how they are transformed, and the plan. No I/O."""
