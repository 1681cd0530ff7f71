"""Questions that go out by http to services of others: forges, alarms, webhooks, health checks."""

from stoker.http_client.client import Answer, Request, Unreachable, call

__all__ = ["Answer", "Request", "Unreachable", "call"]
