"""What is told about it: conditions and Events of the four kinds."""
