"""What can be wrong with an artifact, as errors.

StokerError
├── Stalled ── NotFound          the registry or bucket has nothing of that name
├── Stalled ── NotLetIn          it wants other credentials
├── Stalled ── TooLarge          there is more of it than is accepted
├── Stalled ── Refused           it holds what is never unpacked: links, devices, names that lead outside
├── Retry ──── Damaged           what came is not what its digest or listing says
└── Retry ──── Unreachable       nobody answers, or with nonsense
"""

from __future__ import annotations

from stoker.domain.errors import Retry, Stalled
from stoker.domain.reasons import Reason

MAX_SHOWN = 120


class ArtifactNotFound(Stalled):
    default_reason = Reason.REF_NOT_FOUND


class ArtifactAuthFailed(Stalled):
    default_reason = Reason.SOURCE_AUTH_FAILED


class ArtifactTooLarge(Stalled):
    default_reason = Reason.SOURCE_TOO_LARGE


class ArtifactRefused(Stalled):
    default_reason = Reason.ARTIFACT_REFUSED


class ArtifactDamaged(Retry):
    default_reason = Reason.ARTIFACT_DAMAGED


class ArtifactUnreachable(Retry):
    default_reason = Reason.SOURCE_UNREACHABLE


def printable_name(name: str) -> str:
    """A name from outside, as it may stand in a sentence."""
    text = "".join(char if char.isprintable() else "?" for char in name[:MAX_SHOWN])
    return repr(text + ("…" if len(name) > MAX_SHOWN else ""))
