"""The agent's report: one gateway's state, written to the status ConfigMap."""
