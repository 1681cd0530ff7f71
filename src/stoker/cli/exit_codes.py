"""Exit codes, the same for every verb, and the mapping from errors and sync results to them."""

from __future__ import annotations

from enum import IntEnum

from stoker.agent.sync.jobs import SyncResult
from stoker.domain.errors import InvalidValue, Misconfigured, Retry, Stalled, StokerError, Wait
from stoker.domain.reasons import Reason


class ExitCode(IntEnum):
    DONE = 0
    PARTIAL = 1
    WRONG_INPUT = 2
    STALLED = 3
    UNREACHABLE = 4
    UNVERIFIED = 5
    DIFFERENT = 10


_EXIT_BY_REASON = {
    Reason.REF_NOT_FOUND: ExitCode.WRONG_INPUT,
    Reason.NO_MAPPINGS: ExitCode.WRONG_INPUT,
    Reason.PROFILE_NOT_FOUND: ExitCode.WRONG_INPUT,
    Reason.BASE_NOT_FOUND: ExitCode.WRONG_INPUT,
    Reason.BASE_NOT_ALLOWED: ExitCode.WRONG_INPUT,
    Reason.DEPENDENCY_CYCLE: ExitCode.WRONG_INPUT,
    Reason.SECRET_NOT_FOUND: ExitCode.WRONG_INPUT,
    Reason.FEATURE_NOT_RUNNING: ExitCode.WRONG_INPUT,
    Reason.SOURCE_UNREACHABLE: ExitCode.UNREACHABLE,
    Reason.SOURCE_AUTH_FAILED: ExitCode.UNREACHABLE,
    Reason.GIT_FAILED: ExitCode.UNREACHABLE,
    Reason.UNREACHABLE: ExitCode.UNREACHABLE,
    Reason.UNAUTHORIZED: ExitCode.UNREACHABLE,
    Reason.AUTH_FAILED: ExitCode.UNREACHABLE,
    Reason.NETWORK_ERROR: ExitCode.UNREACHABLE,
    Reason.GATEWAY_UNREACHABLE: ExitCode.UNREACHABLE,
    Reason.GATEWAY_STARTING: ExitCode.UNREACHABLE,
    Reason.GATEWAY_FAULTED: ExitCode.UNREACHABLE,
    Reason.TOKEN_REJECTED: ExitCode.UNREACHABLE,
    Reason.LEVEL_NOT_GRANTED: ExitCode.UNREACHABLE,
    Reason.SECURE_REQUIRED: ExitCode.UNREACHABLE,
    Reason.CERTIFICATE_NOT_TRUSTED: ExitCode.UNREACHABLE,
}

_EXIT_BY_API_REASON = {
    Reason.NOT_FOUND: ExitCode.WRONG_INPUT,
    Reason.RBAC_DENIED: ExitCode.UNREACHABLE,
    Reason.API_SERVER_ERROR: ExitCode.UNREACHABLE,
    Reason.TOO_MANY_REQUESTS: ExitCode.UNREACHABLE,
}
"""Error responses of the API server; an error without a consequence (stalled, wait, retry) exits with 1."""

EXIT_BY_RESULT = {
    SyncResult.DONE: ExitCode.DONE,
    SyncResult.HELD: ExitCode.PARTIAL,
    SyncResult.WAITING: ExitCode.STALLED,
    SyncResult.PARTIAL: ExitCode.PARTIAL,
    SyncResult.UNVERIFIED: ExitCode.UNVERIFIED,
    SyncResult.STALLED: ExitCode.STALLED,
}
"""Exit code of a sync that ran to its end."""


def exit_code(error: StokerError) -> ExitCode:
    """Return the exit code for an error that ended a command."""
    if isinstance(error, InvalidValue | Misconfigured):
        return ExitCode.WRONG_INPUT
    if error.reason in _EXIT_BY_REASON:
        return _EXIT_BY_REASON[error.reason]
    if not isinstance(error, Stalled | Wait | Retry):
        return ExitCode.PARTIAL
    return _EXIT_BY_API_REASON.get(error.reason, ExitCode.STALLED)
