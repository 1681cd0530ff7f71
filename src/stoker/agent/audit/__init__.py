"""The agent's audit log: who changed what on the gateway, written locally and exported."""
