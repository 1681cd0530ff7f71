"""Alerts: turns the Events of a reconcile into messages to Slack, PagerDuty, Teams and webhooks."""
