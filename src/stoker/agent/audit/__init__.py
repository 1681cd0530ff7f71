"""The agent's audit log: records of syncs, refusals and pauses, written locally and exported."""
