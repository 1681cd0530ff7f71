"""Objects of ours that do not fit their schema, read as far as they can be."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.api.kinds.destinations import GitDestination
from stoker.reverser.watch.config_watch import settings_of, unreadable_object

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
def test_whatever_is_in_it_its_head_is_read(spec: Any, status: Any) -> None:
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


def test_a_replica_that_waits_learns_what_another_one_holds_and_which_approvals_it_used() -> None:
    def written(**status: Any) -> GitDestination:
        spec = {"repoRef": {"name": "fleet"}, "branch": "main", "baseFolder": "prod"}
        return msgspec.convert({"metadata": HEAD, "spec": spec, "status": status}, GitDestination)

    before = settings_of(written())
    assert settings_of(written(heldDeletions={"count": 60, "digest": "aa"})) != before
    assert settings_of(written(approvalsUsed=["aa"])) != before
    assert settings_of(written(lastCommit="b" * 40, pendingChanges=3)) == before
