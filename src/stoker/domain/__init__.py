"""Values and errors that every room shares; the standard library only."""
