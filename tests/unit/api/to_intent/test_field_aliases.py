"""Aliases of fields disappear, and no value in them gets lost."""

import pytest

from stoker.api.to_intent.field_aliases import resolve_aliases
from stoker.api.to_intent.tree_merge import SpecTree

KEY = {"name": "gpg", "key": "publicKey"}
OTHER = {"name": "other", "key": "keys"}
TEMPLATES = [{"jsonPath": ".a", "valueTemplate": "x"}]
FIELDS = [{"jsonPath": ".b", "valueTemplate": "y"}]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"webhookNamespaces": ["a"]}, {"webhook": {"allowedNamespaces": ["a"]}}),
        (
            {"webhookNamespaces": ["a"], "webhook": {"port": 1, "allowedNamespaces": ["b"]}},
            {"webhook": {"port": 1, "allowedNamespaces": ["a", "b"]}},
        ),
        ({"autoRollback": {"enabled": True}}, {"deployment": {"autoRollback": {"enabled": True}}}),
        (
            {"autoRollback": {"enabled": True}, "deployment": {"autoRollback": {"enabled": False}}},
            {"deployment": {"autoRollback": {"enabled": False}}},
        ),
        ({"normalize": {"fields": FIELDS}}, {"normalize": {"templates": FIELDS}}),
        (
            {"normalize": {"fields": FIELDS, "templates": TEMPLATES}},
            {"normalize": {"templates": [*FIELDS, *TEMPLATES]}},
        ),
        (
            {"alerting": {"webhooks": [{"type": "slack", "true": ["SyncFailed"]}]}},
            {"alerting": {"webhooks": [{"type": "slack", "on": ["SyncFailed"]}]}},
        ),
        (
            {"git": {"auth": {"gpgKey": {"secretRef": KEY}}}},
            {"git": {"verify": {"gpgKeysSecretRef": KEY, "mode": "commit"}}},
        ),
        (
            {"git": {"auth": {"token": {}, "gpgKey": {"secretRef": KEY}}, "verify": {"mode": "tag"}}},
            {"git": {"auth": {"token": {}}, "verify": {"gpgKeysSecretRef": KEY, "mode": "tag"}}},
        ),
        (
            {"git": {"auth": {"gpgKey": {"secretRef": KEY}}, "verify": {"gpgKeysSecretRef": OTHER}}},
            {"git": {"verify": {"gpgKeysSecretRef": OTHER, "mode": "commit"}}},
        ),
        ({"git": {"auth": {}}, "paused": True}, {"git": {"auth": {}}, "paused": True}),
        ({}, {}),
    ],
)
def test_only_the_first_spelling_is_left(written: SpecTree, meant: SpecTree) -> None:
    assert resolve_aliases(written) == meant


def test_keys_in_the_login_demand_signatures_even_beside_mode_none() -> None:
    spec = resolve_aliases({"git": {"auth": {"gpgKey": {"secretRef": KEY}}, "verify": {"mode": "none"}}})
    assert spec == {"git": {"verify": {"gpgKeysSecretRef": KEY, "mode": "commit"}}}
