"""Bounded HTTP requests to other services: Git servers, alert receivers, webhooks, health checks."""

from stoker.http_client.client import ServiceRequest, ServiceResponse, send_request
from stoker.http_client.errors import EgressRefused, ServiceUnreachable

__all__ = ["EgressRefused", "ServiceRequest", "ServiceResponse", "ServiceUnreachable", "send_request"]
