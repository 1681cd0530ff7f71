"""Errors of HTTP requests, without the messages of aiohttp, which quote the whole URL.

Retry ── ServiceUnreachable   no response, or an unreadable response
         └── EgressRefused    this process does not connect to that address
"""

from __future__ import annotations

from stoker.domain.errors import Retry
from stoker.domain.reasons import Reason


class ServiceUnreachable(Retry):
    """The service did not respond, or its response cannot be read."""

    default_reason = Reason.SERVICE_UNREACHABLE


class EgressRefused(ServiceUnreachable):
    """The address check refused the host; retried, because names may resolve to other addresses later."""

    default_reason = Reason.EGRESS_REFUSED
