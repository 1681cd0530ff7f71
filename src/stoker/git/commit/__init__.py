"""New commits without a worktree: trees, packs, proposal branches, and one push at a time."""
