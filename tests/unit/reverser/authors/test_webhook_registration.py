"""The registration of the author webhook: when it is written, and when it is up to date already."""

from __future__ import annotations

import msgspec

from stoker.kube.client.served_kinds import KindCatalog
from stoker.reverser.authors import webhook_registration
from stoker.reverser.authors.webhook_registration import WEBHOOK
from stoker.reverser.authors.webhook_rules import ReviewedKind, webhook_fields
from stoker.reverser.selection.selection import select_objects

NONE = select_objects((), KindCatalog(()))


def stored(fields: dict[str, object]) -> webhook_registration._FoundWebhook:
    """As the API server gives it back: it keeps no list that is empty."""
    kept = {key: value for key, value in fields.items() if value}
    return webhook_registration._FoundWebhook(
        "uid", msgspec.convert({"name": WEBHOOK, **kept}, webhook_registration._CaptureWebhook)
    )


def test_a_webhook_without_rules_is_written_once() -> None:
    nothing = webhook_fields((), NONE, "us")
    assert not webhook_registration._needs_update(stored(nothing), nothing)


def test_a_webhook_whose_rules_are_others_is_written() -> None:
    nothing = webhook_fields((), NONE, "us")
    maps = webhook_fields((ReviewedKind("", "v1", "configmaps", "Namespaced", ("CREATE",)),), NONE, "us")
    assert webhook_registration._needs_update(stored(nothing), maps)
    assert webhook_registration._needs_update(stored(maps), nothing)
