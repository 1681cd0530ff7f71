"""Which objects are written: rules, what they mean on a server, and what is left out as noise."""
