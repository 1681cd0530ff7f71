"""Objects from the API server are taken as they are; one that does not fit stalls alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.api.kinds.stoker import Stoker, StokerSpec
from stoker.api.manifests.codec import decode, encode, from_wire, to_wire
from stoker.api.meta import Condition, ObjectMeta
from stoker.domain.errors import InvalidValue


def stoker(**spec: object) -> dict[str, Any]:
    return {
        "apiVersion": "stoker.io/v1alpha1",
        "kind": "Stoker",
        "metadata": {"name": "winery", "namespace": "cellar", "generation": 3, "resourceVersion": "12"},
        "spec": {"git": {"repo": "https://git.example.com/a.git", "ref": "main"}, **spec},
    }


def test_fields_that_are_not_known_are_ignored() -> None:
    raw = stoker(future={"a": 1})
    raw["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    found = decode(json.dumps(raw).encode(), Stoker)
    assert found.spec.git.ref == "main"
    assert (found.metadata.generation, found.metadata.resource_version) == (3, "12")


def test_a_field_that_was_left_out_stays_out() -> None:
    found = decode(json.dumps(stoker(excludePatterns=[], paused=False)).encode(), Stoker)
    assert found.spec.exclude_patterns == ()
    assert found.spec.polling is None
    assert json.loads(encode(found)) == stoker(excludePatterns=[], paused=False)


def test_header_and_names_are_written_as_on_the_wire() -> None:
    made = Stoker(metadata=ObjectMeta(name="a"), spec=from_wire(stoker()["spec"], StokerSpec))
    assert to_wire(made) == {
        "apiVersion": "stoker.io/v1alpha1",
        "kind": "Stoker",
        "metadata": {"name": "a"},
        "spec": {"git": {"repo": "https://git.example.com/a.git", "ref": "main"}},
    }
    condition = Condition(type="Ready", status="True", reason="A", message="", last_transition_time="t")
    assert to_wire(condition)["lastTransitionTime"] == "t"


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (
            b'{"metadata": {}, "spec": {"git": {"repo": 1}}}',
            "Stoker: spec.git.repo: expected `str`, got `int`",
        ),
        (b'{"metadata": {}, "spec": {}}', "Stoker: spec: object missing required field `git`"),
        (b'{"metadata": {}}', "Stoker: object missing required field `spec`"),
        (b'{"kind": "SyncProfile"}', "Stoker: kind: invalid enum value 'SyncProfile'"),
        (b"[]", "Stoker: expected `object`, got `array`"),
        (b"{", "Stoker: "),
        (b'{"spec": "\xff"}', "Stoker: "),
        (b"[" * 100_000, "Stoker: "),
        (b'{"x": ' + b"[" * 100_000, "Stoker: is nested too deeply"),
        (b'{"metadata": {"generation": 1e400}}', "Stoker: "),
    ],
)
def test_an_object_that_does_not_fit_is_one_refusal(raw: bytes, says: str) -> None:
    with pytest.raises(InvalidValue) as refusal:
        decode(raw, Stoker)
    assert says in refusal.value.message


def test_plain_values_are_checked_alike() -> None:
    with pytest.raises(InvalidValue, match=r"StokerSpec: paused: expected `bool \| null`, got `str`"):
        from_wire({**stoker()["spec"], "paused": "no"}, StokerSpec)


def test_a_decoded_object_cannot_be_changed_by_accident() -> None:
    found = decode(json.dumps(stoker()).encode(), Stoker)
    with pytest.raises(AttributeError):
        found.spec.git.ref = "dev"  # type: ignore[misc]
