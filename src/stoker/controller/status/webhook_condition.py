"""The condition `WebhookReady`, from a resource's spec and the receiver's state. Pure.

The receiver has a single port and serves a resource there even if its own `port` differs. It does not serve a
resource for which no request could be authenticated.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from stoker.domain.intent.delivery import ReceiverPolicy
from stoker.domain.intent.source import SecretKey
from stoker.domain.reasons import Reason


class WebhookCondition(NamedTuple):
    """The condition's value, reason and message."""

    ready: bool
    reason: Reason
    message: str


def receiver_condition(
    wanted: ReceiverPolicy,
    *,
    port: int | None,
    operator_key: bool = False,
    missing: Collection[SecretKey] = (),
) -> WebhookCondition:
    """`port` is where the receiver listens; `missing` has the Secret keys that do not exist."""
    if not wanted.enabled:
        return WebhookCondition(False, Reason.WEBHOOK_DISABLED, "spec.webhook.enabled is false")
    if port is None:
        return WebhookCondition(
            False, Reason.LISTENER_OFF, "the webhook receiver is disabled (--receiver-bind-address=0)"
        )
    if wanted.port != port:
        message = (
            f"spec.webhook.port is {wanted.port}, but the receiver listens on port {port} for all resources"
        )
        return WebhookCondition(False, Reason.PORT_MISMATCH, message)
    named = [key for key in (wanted.hmac_key, wanted.bearer) if key is not None]
    absent = [key for key in named if key in missing]
    if absent:
        first = absent[0]
        message = f"Secret {first.name!r} with key {first.key!r}, which spec.webhook names, does not exist"
        return WebhookCondition(False, Reason.SECRET_NOT_FOUND, message)
    if not named and not operator_key:
        message = "neither spec.webhook.secretRef nor bearerSecretRef nor a key of the operator is set"
        return WebhookCondition(False, Reason.NO_CREDENTIAL, message)
    return WebhookCondition(True, Reason.LISTENER_ACTIVE, f"Webhook listener active on port {port}")
