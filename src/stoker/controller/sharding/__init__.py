"""Several controllers that divide the namespaces: who works on which, also while their number changes."""
