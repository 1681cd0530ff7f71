"""Decides when to renew which certificate, so that clients trust every certificate they receive.

A CA is replaced in three steps with enough time between them for every client to follow: clients get the
new CA in their bundle, then the new CA signs the serving certificate, then the old CA is removed from the
bundle. Each replica decides on its own from the same Secret, and the first to write wins.

Pure: the inputs are the certificates, the time, and whether all clients already trust the newest CA.
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

# Renewed after two thirds of its lifetime, as is usual: that leaves time to notice a failing renewal.
DUE_SHARE = 2 / 3
# From here on a certificate is reissued even if it is not certain that all clients trust its CA.
OVERDUE_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class CertificateLifetimes:
    """The lifetimes of certificates and the delays between the steps of a rotation."""

    authority: timedelta = timedelta(days=365)
    serving: timedelta = timedelta(days=90)
    overlap: timedelta = timedelta(minutes=10)
    """Delay between distributing a new CA and using it."""
    farewell: timedelta = timedelta(hours=1)
    """Delay between the last use of an old CA and its removal."""
    mutual: bool = False
    """Whether replicas also use the certificate as clients of each other."""


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
    """Return the next step, or when to check again."""
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
    """Return the certificates after the step."""
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
