"""Sources that a sync reads from: a git remote, a shared mirror volume, an imported artifact."""
