"""Which objects are written: rules, the kinds they select on a server, and what counts as noise."""
