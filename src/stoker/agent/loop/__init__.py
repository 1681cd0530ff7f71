"""The loop that starts a sync: triggers, polling, backoff, the local webhook, and what it logs."""
