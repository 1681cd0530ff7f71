"""Questions that go out by http to services of others: forges, alarms, webhooks, health checks."""

from stoker.calling.calls import Answer, Request, Unreachable, call

__all__ = ["Answer", "Request", "Unreachable", "call"]
