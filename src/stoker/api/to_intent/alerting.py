"""`spec.alerting`: the receivers of alerts, and their Secrets."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.api.spec.policies import AlertingSpec, AlertWebhookSpec
from stoker.api.to_intent.values import secret_key
from stoker.domain.intent.delivery import AlertKind, AlertTarget
from stoker.domain.intent.intent import Notice
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret


def alerts_of(block: AlertingSpec | None) -> tuple[AlertTarget, ...]:
    if block is None or not block.enabled:
        return ()
    return tuple(_target(webhook) for webhook in block.webhooks or ())


def alert_notices(block: AlertingSpec | None) -> Iterator[Notice]:
    """Yield notices, also if alerting is off: a secret in a manifest is exposed either way."""
    for index, webhook in enumerate((block and block.webhooks) or ()):
        at = f"alerting.webhooks[{index}]"
        if webhook.url is not None:
            yield Notice(Reason.SECRET_IN_SPEC, f"{at}.url is in clear text; use {at}.urlSecretRef")
        if webhook.integration_key is not None:
            message = f"{at}.integrationKey is in clear text; use {at}.integrationKeySecretRef"
            yield Notice(Reason.SECRET_IN_SPEC, message)
        for unused in _unused_webhook_fields(webhook):
            yield Notice(Reason.FIELD_IGNORED, f"{at}.{unused} is not used for the type {webhook.type}")


def _unused_webhook_fields(webhook: AlertWebhookSpec) -> tuple[str, ...]:
    if webhook.type == "pagerduty":
        given = {"url": webhook.url, "urlSecretRef": webhook.url_secret_ref}
    else:
        given = {
            "integrationKey": webhook.integration_key,
            "integrationKeySecretRef": webhook.integration_key_secret_ref,
        }
    return tuple(name for name, value in given.items() if value is not None)


def _target(webhook: AlertWebhookSpec) -> AlertTarget:
    kind = AlertKind(webhook.type)
    if kind is AlertKind.PAGERDUTY:
        ref, inline = webhook.integration_key_secret_ref, webhook.integration_key
    else:
        ref, inline = webhook.url_secret_ref, webhook.url
    return AlertTarget(
        kind=kind,
        on=webhook.on or (),
        secret=secret_key(ref),
        inline=None if inline is None else Secret(inline),
    )
