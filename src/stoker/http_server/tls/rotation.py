"""When which certificate is renewed, so that no client ever meets one that it does not trust.

An authority is replaced in three steps, each far enough from the next that everybody
has seen it: clients are told to trust the new one, then it signs what is served with,
then the old one is forgotten. Replicas decide this each for itself from the same
Secret, and the first to write wins.

Pure: what there is, what time it is, and whether all who call us trust the newest
authority already.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from stoker.http_server.tls.certificate_authority import (
    CertificateFacts,
    TlsMaterial,
    new_material,
    reissue_certificate,
    with_new_authority,
    without_old_authorities,
)

# Renewed when two thirds of its life are over, as is usual: there is time to notice that it fails.
DUE_SHARE = 2 / 3
# From here on a certificate is renewed although its authority is not known to be trusted everywhere.
OVERDUE_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class CertificateLifetimes:
    """How long everything lasts."""

    authority: timedelta = timedelta(days=365)
    serving: timedelta = timedelta(days=90)
    overlap: timedelta = timedelta(minutes=10)
    """From telling clients of a new authority to using it."""
    farewell: timedelta = timedelta(hours=1)
    """From its last use to forgetting an old one."""
    mutual: bool = False
    """Whether replicas show the certificate to each other, too."""


class RotationStep(Enum):
    KEEP = auto()
    START_OVER = auto()
    ADD_AUTHORITY = auto()
    REISSUE = auto()
    DROP_OLD = auto()


@dataclass(frozen=True, slots=True)
class RotationDecision:
    step: RotationStep
    look_again: datetime
    """When the next step may be due."""


def decide_rotation(
    authorities: Sequence[CertificateFacts],
    serving: CertificateFacts,
    names: Collection[str],
    now: datetime,
    terms: CertificateLifetimes,
    *,
    trusted: bool,
) -> RotationDecision:
    """The next step, or when to look again."""
    newest = authorities[0]
    if newest.expires <= now:
        return RotationDecision(RotationStep.START_OVER, now)
    if newest.share_gone(DUE_SHARE) <= now:
        return RotationDecision(RotationStep.ADD_AUTHORITY, now)
    due = [newest.share_gone(DUE_SHARE)]
    if serving.issuer_id != newest.key_id:
        usable = newest.created + terms.overlap
        if now >= usable and (trusted or serving.share_gone(OVERDUE_SHARE) <= now):
            return RotationDecision(RotationStep.REISSUE, now)
        due += [usable] if now < usable else [serving.share_gone(OVERDUE_SHARE)]
    else:
        if serving.share_gone(DUE_SHARE) <= now or not serving.names >= set(names):
            return RotationDecision(RotationStep.REISSUE, now)
        due.append(serving.share_gone(DUE_SHARE))
        if len(authorities) > 1:
            forget = serving.created + terms.farewell
            if forget <= now:
                return RotationDecision(RotationStep.DROP_OLD, now)
            due.append(forget)
    return RotationDecision(RotationStep.KEEP, min(due))


def apply_rotation_step(
    step: RotationStep,
    material: TlsMaterial,
    names: Sequence[str],
    now: datetime,
    terms: CertificateLifetimes,
) -> TlsMaterial:
    """What there is after the step."""
    match step:
        case RotationStep.START_OVER:
            return new_material(names, now, terms.authority, terms.serving, mutual=terms.mutual)
        case RotationStep.ADD_AUTHORITY:
            return with_new_authority(material, now, terms.authority)
        case RotationStep.REISSUE:
            return reissue_certificate(material, names, now, terms.serving, mutual=terms.mutual)
        case RotationStep.DROP_OLD:
            return without_old_authorities(material)
        case RotationStep.KEEP:
            return material
