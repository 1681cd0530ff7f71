"""Objects of ours that do not fit their schema, read as far as they can be."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.reverser.watch.config_watch import unreadable_object

HEAD = {"name": "odd", "namespace": "shop", "uid": "u", "generation": 3}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("secretRef", "signing", "destinationRef", "name", "namespace", "conditions")),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def read(spec: Any, status: Any = None) -> Any:
    return unreadable_object(
        msgspec.json.encode({"metadata": HEAD, "spec": spec, "status": status}), "it is odd"
    )


@given(ANYTHING, ANYTHING)
def test_whatever_stands_in_it_its_head_is_read(spec: Any, status: Any) -> None:
    found = read(spec, status)
    assert (found.metadata.name, found.metadata.namespace, found.metadata.generation) == ("odd", "shop", 3)
    assert all(found.secrets)


def test_the_secrets_that_it_names_and_where_it_leads_are_known() -> None:
    spec = {
        "secretRef": {"name": "login"},
        "signing": {"secretRef": {"name": "key"}},
        "destinationRef": {"namespace": "system"},
    }
    found = read(spec)
    assert found.secrets == ("login", "key")
    assert found.destination == "system"


@pytest.mark.parametrize("status", [None, {"conditions": "none"}, {"conditions": [{"type": 1}]}, 7])
def test_a_status_that_cannot_be_read_is_none(status: Any) -> None:
    assert read({}, status).status is None


def test_a_status_that_was_written_before_is_known() -> None:
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "InvalidSpec",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = read({}, {"conditions": [condition]}).status
    assert [each.reason for each in status.conditions] == ["InvalidSpec"]
