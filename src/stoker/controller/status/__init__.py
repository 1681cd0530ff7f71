"""Status, conditions, Events, metrics and audit records of a resource."""
