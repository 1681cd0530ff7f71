"""Telling people what went wrong: from the Events of a pass to Slack, PagerDuty, Teams and webhooks."""
