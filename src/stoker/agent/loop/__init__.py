"""The loop that starts a sync: triggers, polling, backoff, the local webhook, log lines and metrics."""
