"""Every error that is raised on purpose, and how the loop that catches it must react.

    StokerError               a reason (one word for machines) and a message (a sentence for people)
    ├── Stalled               a human must act; trying again before something changes is useless
    │   ├── InvalidValue      a value from outside is not what it claims to be
    │   └── Misconfigured     this process cannot run as it was started; a command exits with code 2
    ├── Wait                  nothing is wrong; requeue after a known time
    └── Retry                 it may succeed next time; requeue with backoff

The module where a foreign exception enters converts it into one of these
(`stoker.kube.client.errors` for the API server, `stoker.git.errors` for git) and chooses
the consequence. Code past that boundary never looks at status codes or at the text of a
message.
"""

from __future__ import annotations

from typing import ClassVar

from stoker.domain.reasons import Reason


class StokerError(Exception):
    """Carries the reason that the condition, the event, the metric and the log will show."""

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
    """The process was started with options with which it cannot work."""

    default_reason = Reason.MISCONFIGURED


class Wait(StokerError):
    """Requeue after `after` seconds; nothing is wrong."""

    default_reason = Reason.WAITING

    def __init__(self, message: str, *, after: float, reason: Reason | None = None) -> None:
        super().__init__(message, reason=reason)
        self.after = after


class Retry(StokerError):
    """Retry with backoff, but not before `after` seconds if the other side named a time."""

    default_reason = Reason.TRANSIENT_ERROR

    def __init__(self, message: str, *, after: float | None = None, reason: Reason | None = None) -> None:
        super().__init__(message, reason=reason)
        self.after = after


def clear_traceback(error: BaseException) -> None:
    """Drop the tracebacks of a foreign error that no caller will see.

    An HTTP client stores the error in the broken stream, and the traceback's frames hold the stream:
    ten kilobytes and fifty objects leak for each lost connection until the next garbage collection.
    """
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
