"""Exit codes, the same for every verb, and which error ends in which."""

from __future__ import annotations

from enum import IntEnum

from stoker.agent.sync.outcomes import Result
from stoker.domain.errors import InvalidValue, Misconfigured, Retry, Stalled, StokerError, Wait
from stoker.domain.reasons import Reason


class Exit(IntEnum):
    DONE = 0
    PARTIAL = 1
    WRONG_INPUT = 2
    STALLED = 3
    UNREACHABLE = 4
    UNVERIFIED = 5
    DIFFERENT = 10


_BY_REASON = {
    Reason.REF_NOT_FOUND: Exit.WRONG_INPUT,
    Reason.NO_MAPPINGS: Exit.WRONG_INPUT,
    Reason.PROFILE_NOT_FOUND: Exit.WRONG_INPUT,
    Reason.BASE_NOT_FOUND: Exit.WRONG_INPUT,
    Reason.BASE_NOT_ALLOWED: Exit.WRONG_INPUT,
    Reason.DEPENDENCY_CYCLE: Exit.WRONG_INPUT,
    Reason.SECRET_NOT_FOUND: Exit.WRONG_INPUT,
    Reason.FEATURE_NOT_RUNNING: Exit.WRONG_INPUT,
    Reason.SOURCE_UNREACHABLE: Exit.UNREACHABLE,
    Reason.SOURCE_AUTH_FAILED: Exit.UNREACHABLE,
    Reason.GIT_FAILED: Exit.UNREACHABLE,
    Reason.UNREACHABLE: Exit.UNREACHABLE,
    Reason.UNAUTHORIZED: Exit.UNREACHABLE,
    Reason.AUTH_FAILED: Exit.UNREACHABLE,
    Reason.NETWORK_ERROR: Exit.UNREACHABLE,
    Reason.GATEWAY_UNREACHABLE: Exit.UNREACHABLE,
    Reason.GATEWAY_STARTING: Exit.UNREACHABLE,
    Reason.GATEWAY_FAULTED: Exit.UNREACHABLE,
    Reason.TOKEN_REJECTED: Exit.UNREACHABLE,
    Reason.LEVEL_NOT_GRANTED: Exit.UNREACHABLE,
    Reason.SECURE_REQUIRED: Exit.UNREACHABLE,
    Reason.CERTIFICATE_NOT_TRUSTED: Exit.UNREACHABLE,
}

_OF_AN_ANSWER = {
    Reason.NOT_FOUND: Exit.WRONG_INPUT,
    Reason.RBAC_DENIED: Exit.UNREACHABLE,
    Reason.API_SERVER_ERROR: Exit.UNREACHABLE,
    Reason.TOO_MANY_REQUESTS: Exit.UNREACHABLE,
}
"""What an API server answered to a verb; a part of a process that broke with it is another matter."""

BY_RESULT = {
    Result.DONE: Exit.DONE,
    Result.HELD: Exit.PARTIAL,
    Result.WAITING: Exit.STALLED,
    Result.PARTIAL: Exit.PARTIAL,
    Result.UNVERIFIED: Exit.UNVERIFIED,
    Result.STALLED: Exit.STALLED,
}
"""What the shell sees of a pass that came to its end."""


def exit_code(error: StokerError) -> Exit:
    """What the shell sees of an error that ended a command."""
    if isinstance(error, InvalidValue | Misconfigured):
        return Exit.WRONG_INPUT
    if error.reason in _BY_REASON:
        return _BY_REASON[error.reason]
    if not isinstance(error, Stalled | Wait | Retry):
        return Exit.PARTIAL
    return _OF_AN_ANSWER.get(error.reason, Exit.STALLED)
