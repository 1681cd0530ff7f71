"""New commits without a worktree: trees, packs, branches elsewhere, and one push at a time."""
