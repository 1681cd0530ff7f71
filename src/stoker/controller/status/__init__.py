"""What is said of a resource: status, conditions, Events, measurements."""
