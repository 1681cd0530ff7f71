"""Bounded HTTP requests to other services: forges, alert receivers, webhooks, health checks."""

from stoker.http_client.client import Answer, Request, call
from stoker.http_client.errors import EgressRefused, Unreachable

__all__ = ["Answer", "EgressRefused", "Request", "Unreachable", "call"]
