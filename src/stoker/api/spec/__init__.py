"""The parts that specs are built from, one module per concern."""
