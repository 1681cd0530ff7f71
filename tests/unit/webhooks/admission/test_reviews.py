"""Reviews on the wire: what is read, what is refused, and what an answer may hold."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from stoker.domain.errors import InvalidValue
from stoker.webhooks.admission.crd_conversion import answer_conversion
from stoker.webhooks.admission.reviews import (
    AdmissionVerdict,
    admission_answer,
    read_admission,
    read_conversion,
)

REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u-1",
        "operation": "CREATE",
        "object": {"a": [1]},
        "oldObject": None,
        "dryRun": False,
    },
}


def changed(**changes: Any) -> bytes:
    return json.dumps({**REVIEW, **changes}).encode()


def answer(verdict: AdmissionVerdict) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(admission_answer("u-1", verdict))["response"]
    return found


def test_a_review_keeps_its_objects_as_they_came() -> None:
    review = read_admission(json.dumps(REVIEW).encode())
    assert review.new == b'{"a": [1]}'
    assert review.old is None
    assert read_admission(changed(request={"uid": "x"})).new is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe",
        b'{"request": 1}',
        changed(apiVersion="admission.k8s.io/v1beta1"),
        changed(kind="Pod"),
        changed(request=None),
        changed(request={}),
        changed(request={"uid": 1}),
        changed(request={"uid": "x", "userInfo": {"groups": "all"}}),
        b"[" * 200_000,
        b'{"request":' * 50_000,
    ],
)
def test_what_is_no_review_is_refused_with_a_sentence(body: bytes) -> None:
    for read in (read_admission, read_conversion):
        with pytest.raises(InvalidValue) as raised:
            read(body)
        assert len(raised.value.message) < 400


def test_an_answer_says_yes_no_or_yes_with_a_patch() -> None:
    assert answer(AdmissionVerdict()) == {"uid": "u-1", "allowed": True}
    refused = answer(AdmissionVerdict(refusal="no\nwhy", patch=({"op": "add"},)))
    assert refused == {
        "uid": "u-1",
        "allowed": False,
        "status": {"code": 403, "reason": "Forbidden", "message": "no why"},
    }
    patched = answer(AdmissionVerdict(patch=({"op": "add", "path": "/x", "value": 1},)))
    assert patched["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(patched["patch"])) == [{"op": "add", "path": "/x", "value": 1}]


def test_warnings_are_short_few_and_different() -> None:
    fields = answer(
        AdmissionVerdict(warnings=("x" * 1000, "same", "same", *(f"w{number}" for number in range(30))))
    )
    assert all(len(one) <= 256 for one in fields["warnings"])
    assert len(fields["warnings"]) == 13
    assert fields["warnings"][-1] == "and 20 more"
    assert fields["warnings"].count("same") == 1


def conversion(desired: str, *objects: Any) -> bytes:
    request = {"uid": "c-1", "desiredAPIVersion": desired, "objects": list(objects)}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    return json.dumps({**head, "request": request}).encode()


async def converted(desired: str, *objects: Any) -> dict[str, Any]:
    answer = json.loads(await answer_conversion(conversion(desired, *objects)))
    assert (answer["apiVersion"], answer["kind"]) == ("apiextensions.k8s.io/v1", "ConversionReview")
    assert answer["response"]["uid"] == "c-1"
    found: dict[str, Any] = answer["response"]
    return found


async def test_what_is_in_the_version_already_comes_back_as_it_was() -> None:
    one = {
        "apiVersion": "stoker.io/v1alpha1",
        "kind": "Stoker",
        "metadata": {"name": "a"},
        "new": {"x": [1, None]},
    }
    two = {**one, "kind": "SyncProfile"}
    response = await converted("stoker.io/v1alpha1", one, two)
    assert response["result"] == {"status": "Success"}
    assert response["convertedObjects"] == [one, two]
    assert (await converted("stoker.io/v1alpha1"))["convertedObjects"] == []


@pytest.mark.parametrize(
    ("desired", "thing", "why"),
    [
        ("stoker.io/v2", {"apiVersion": "stoker.io/v1alpha1", "kind": "Stoker"}, "knows stoker.io/v1alpha1"),
        ("a/v1", {"apiVersion": "a/v1", "kind": "Widget"}, "is not a kind of Stoker"),
        ("a/v2", {"apiVersion": "a/v1", "kind": "Widget"}, "is not a kind of Stoker"),
        ("stoker.io/v1alpha1", {"apiVersion": 5}, "object 1 cannot be read"),
        ("stoker.io/v1alpha1", "text", "object 1 cannot be read"),
    ],
)
async def test_of_what_cannot_be_converted_nothing_is(desired: str, thing: Any, why: str) -> None:
    fine = {"apiVersion": desired, "kind": "Stoker"}
    response = await converted(desired, *([fine] if desired.startswith("stoker.io/v1alpha1") else []), thing)
    assert response["result"]["status"] == "Failure"
    assert why in response["result"]["message"]
    assert response["convertedObjects"] == []
