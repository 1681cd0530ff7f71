"""Translates error responses of a forge into errors of this program.

All of them are retried: the change is already committed in git and is not lost, and a missing permission or
a branch rule is fixed on the forge, which does not notify us. A message holds only the status and our own
text, never the response body: a tenant chooses the forge's address, so the body may be that of any service.
"""

from __future__ import annotations

from stoker.domain.errors import Retry
from stoker.domain.reasons import Reason
from stoker.http_client import ServiceResponse

RETRY_SECONDS = 60.0
_STATUS_MEANINGS = {
    401: "does not accept the token",
    403: "does not allow this to the token",
    404: "knows no such repository or branch, or none that the token may see",
    409: "has another pull request for the branch, or a conflict with what was asked",
    422: "does not take the request: a branch is missing, has nothing new, or a rule forbids it",
}


class ForgeRefused(Retry):
    """The forge responded, but refused the request or sent an unexpected response."""

    default_reason = Reason.FORGE_REFUSED


class ForgeUnavailable(Retry):
    """The forge did not respond, reported a server error, or limits our request rate."""

    default_reason = Reason.SERVICE_UNREACHABLE


def forge_refusal(answer: ServiceResponse, host: str, project: str) -> Retry:
    """Return the error for a response that is not a success."""
    where = f"{host} ({project})"
    status = f"(status {answer.status})"
    if answer.status == 429 or (answer.status == 403 and answer.wait is not None):
        return ForgeUnavailable(
            f"{where} was asked too often {status}",
            after=answer.wait if answer.wait is not None else RETRY_SECONDS,
        )
    if answer.status >= 500 or answer.status == 408:
        return ForgeUnavailable(f"{where} cannot answer now {status}", after=answer.wait)
    if 300 <= answer.status < 400:
        return ForgeRefused(
            f"{where} answers with a redirect {status}, which is not followed; was the repository moved?",
            after=RETRY_SECONDS,
        )
    meaning = _STATUS_MEANINGS.get(answer.status, "refused the request")
    return ForgeRefused(f"{where} {meaning} {status}", after=RETRY_SECONDS)


def unreadable_answer(host: str, project: str) -> ForgeRefused:
    return ForgeRefused(
        f"{host} ({project}) answers with something that cannot be read; is it the address of a forge's API?",
        after=RETRY_SECONDS,
    )
