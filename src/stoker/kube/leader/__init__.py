"""Leader."""
