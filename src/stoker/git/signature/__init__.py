"""Which commits are accepted: signatures and who made them, history that must continue."""
