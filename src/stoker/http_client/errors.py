"""Errors of HTTP requests, without the messages of aiohttp, which quote the whole URL.

Retry ── ServiceUnreachable   no response, or an unreadable response
         └── EgressRefused    this process does not connect to that address
"""

from __future__ import annotations

from collections.abc import Iterator

from stoker.domain.errors import Retry
from stoker.domain.reasons import Reason


class ServiceUnreachable(Retry):
    """The service did not respond, or its response cannot be read."""

    default_reason = Reason.SERVICE_UNREACHABLE


class EgressRefused(ServiceUnreachable):
    """The address check refused the host; retried, because names may resolve to other addresses later."""

    default_reason = Reason.EGRESS_REFUSED


def error_reason(error: BaseException) -> str:
    """Return the most useful cause for a person: an untrusted certificate first."""
    import ssl  # noqa: PLC0415 - slower to import than many commands run

    causes = list(_error_causes(error))
    for cause in causes:
        # aiohttp's own error is of this type too, but has no reason.
        if isinstance(cause, ssl.SSLCertVerificationError) and hasattr(cause, "verify_message"):
            return f"its certificate is not trusted: {cause.verify_message}"
    spoken = (cause.strerror for cause in causes if isinstance(cause, OSError) and cause.strerror)
    return next(spoken, type(error).__name__)


def _error_causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
