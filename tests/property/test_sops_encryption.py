"""Any Secret that the API would take is opened by the real sops as what it was."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyrage  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.reverser.encryption.age import AgeRecipient
from stoker.reverser.encryption.sops import seal_document
from stoker_testkit.services.sops_decrypt import opened

IDENTITY = pyrage.x25519.Identity.generate()
RECIPIENT = AgeRecipient.of(str(IDENTITY.to_public()))
WHEN = datetime(2026, 1, 1, tzinfo=UTC)

names = st.from_regex(r"[-._a-zA-Z0-9]{1,20}", fullmatch=True) | st.sampled_from(
    ["data", "stringData", "sops", "y", "1e3", "null", "~", "<<"]
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.sampled_from(
    ["ENC[AES256_GCM,data:x,iv:x,tag:x,type:str]", "no", "0o14", "12:30:45", "2026-01-01", "a\nb\n", ""]
)
values = st.dictionaries(names, texts, max_size=5)
secrets = st.fixed_dictionaries(
    {
        "apiVersion": st.just("v1"),
        "kind": st.just("Secret"),
        "metadata": st.fixed_dictionaries(
            {"name": st.just("x")},
            optional={"labels": values, "annotations": values, "finalizers": st.lists(texts, max_size=3)},
        ),
    },
    optional={"type": texts, "immutable": st.booleans(), "data": values | st.none(), "stringData": values},
)


@settings(max_examples=60, deadline=None)
@given(secrets)
def test_any_secret_comes_back_as_it_was(secret: dict[str, Any]) -> None:
    assert opened(seal_document(secret, [RECIPIENT], WHEN), IDENTITY) == secret
