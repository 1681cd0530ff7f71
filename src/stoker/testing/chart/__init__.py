"""Chart."""
