"""Every error that is raised on purpose, and what it asks of the loop that catches it.

    StokerError               a reason (one word for machines) and a message (a sentence for people)
    ├── Stalled               a human must act; trying again before something changes is useless
    │   ├── InvalidValue      a value from outside is not what it claims to be
    │   └── Misconfigured     this process cannot run as it was started; a command exits with code 2
    ├── Wait                  nothing is wrong; come back after a known time
    └── Retry                 it may well work next time; come back with growing pauses

A foreign exception is turned into one of these at the boundary where it enters
(`stoker.kube.client.errors` for the API server, `stoker.git.errors` for git), with the
consequence that fits. Nothing past that boundary looks at status codes or at the
text of a message.
"""

from __future__ import annotations

from typing import ClassVar

from stoker.domain.reasons import Reason


class StokerError(Exception):
    """Carries the reason as it will stand in the condition, the event, the metric and the log."""

    default_reason: ClassVar[Reason] = Reason.INTERNAL_ERROR

    def __init__(self, message: str, *, reason: Reason | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason if reason is not None else self.default_reason


class Stalled(StokerError):
    """A human must act."""

    default_reason = Reason.STALLED


class InvalidValue(Stalled):
    """A value from outside was refused where it entered."""

    default_reason = Reason.INVALID_VALUE


class Misconfigured(Stalled):
    """The process was started in a way in which it cannot work."""

    default_reason = Reason.MISCONFIGURED


class Wait(StokerError):
    """Come back after `after` seconds; nothing is wrong."""

    default_reason = Reason.WAITING

    def __init__(self, message: str, *, after: float, reason: Reason | None = None) -> None:
        super().__init__(message, reason=reason)
        self.after = after


class Retry(StokerError):
    """Try again with back-off, but not before `after` seconds where the other side named a time."""

    default_reason = Reason.TRANSIENT_ERROR

    def __init__(self, message: str, *, after: float | None = None, reason: Reason | None = None) -> None:
        super().__init__(message, reason=reason)
        self.after = after


def clear_traceback(error: BaseException) -> None:
    """Part a foreign error, which nobody will see, from the frames that it came through.

    An HTTP client keeps the error in the stream that broke, and the traceback's frames keep the stream:
    ten kilobytes and fifty objects for each lost connection, until Python next looks for cycles.
    """
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
