"""The errors of artifact sources.

StokerError
├── Stalled ── ArtifactNotFound      the registry or bucket has no artifact of that name
├── Stalled ── ArtifactAuthFailed    the credentials are missing or refused
├── Stalled ── ArtifactTooLarge      the artifact exceeds a limit
├── Stalled ── ArtifactRefused       it contains entries that are never unpacked: links, devices, unsafe paths
├── Retry ──── ArtifactDamaged       the content does not match its digest or the listing
└── Retry ──── ArtifactUnreachable   the server does not answer, or its answer is not understood
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
    """Return an untrusted name in a bounded, printable form for messages."""
    text = "".join(char if char.isprintable() else "?" for char in name[:MAX_SHOWN])
    return repr(text + ("…" if len(name) > MAX_SHOWN else ""))
