"""The blocks that specs are put together from; one file per concern."""
