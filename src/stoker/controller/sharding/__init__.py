"""Several controllers that divide the namespaces among them, also while their number changes."""
