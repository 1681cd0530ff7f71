"""Reviews of the API server: always allowed, answered first, read afterwards, and never without a bound."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.errors import InvalidValue
from stoker.reverser.authors.admission import LARGE, AuthorIntake, IntakeBounds, parse_fact
from stoker.reverser.authors.attribution import AuthorAttribution, ObservedEvent
from stoker.reverser.authors.facts import AuthorFact, object_blob_id, request_fact
from stoker.reverser.selection.preset import GroupResource
from stoker.reverser.selection.rules import ChangeOperation
from stoker.telemetry.metrics import Metrics
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.memory_peak import peak_of

MAPS = GroupResource("", "configmaps")


class Listener:
    def __init__(self) -> None:
        self.sent: list[AuthorFact] = []

    def tell(self, fact: AuthorFact) -> None:
        self.sent.append(fact)


class Intake:
    def __init__(self, bounds: IntakeBounds | None = None) -> None:
        self.authors = AuthorAttribution()
        self.peers = Listener()
        self.metrics = Metrics()
        self.intake = AuthorIntake(
            self.authors, self.peers, bounds=bounds, metrics=self.metrics, clock=ManualClock()
        )

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[Intake]:
        task = asyncio.create_task(self.intake.run())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.wait([task])

    def author(
        self, obj: dict[str, Any], before: str, operation: ChangeOperation = ChangeOperation.UPDATE
    ) -> str | None:
        seen = ObservedEvent(MAPS, obj["metadata"]["uid"], before, operation, object_blob_id(obj))
        found = self.authors.author_of(seen, 0.0)
        return found and found.name


def config_map(value: str = "a", uid: str = "u", version: str = "") -> dict[str, Any]:
    metadata = {"name": "m", "namespace": "n", "uid": uid}
    if version:
        metadata["resourceVersion"] = version
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": value}}


def review(user: str = "alice", operation: str = "UPDATE", **more: Any) -> bytes:
    request = {
        "uid": "r1",
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "operation": operation,
        "userInfo": {"username": user, "uid": "7", "groups": ["dev"]},
        "object": config_map("b", version="1"),
        "oldObject": config_map("a", version="1"),
        **more,
    }
    head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return json.dumps({**head, "request": request}).encode()


def change(user: str, uid: str) -> bytes:
    """A user changes a to b."""
    return review(user, object=config_map("b", uid), oldObject=config_map("a", uid, "1"))


def allowed(answer: bytes) -> str:
    """The uid that is answered; anything but a plain yes fails."""
    found = json.loads(answer)
    assert found["kind"] == "AdmissionReview"
    assert found["apiVersion"] == "admission.k8s.io/v1"
    assert found["response"].keys() == {"uid", "allowed"}
    assert found["response"]["allowed"] is True
    uid: str = found["response"]["uid"]
    return uid


async def test_the_user_is_known_after_the_answer_here_and_elsewhere() -> None:
    async with Intake().reading() as it:
        assert allowed(await it.intake.review(review())) == "r1"
        assert it.author(config_map("b"), "1") is None
        await it.intake.settle()
        assert it.author(config_map("b"), "1") == "alice"
        (result,) = it.peers.sent
        assert (result.user.name, result.user.groups, result.before) == ("alice", ("dev",), "1")
        assert it.intake.counts["fact"] == 1


async def test_the_answer_does_not_wait_for_what_is_still_to_be_read() -> None:
    it = Intake()  # the queue is not read
    for number in range(100):
        assert allowed(await it.intake.review(review(uid=f"r{number}"))) == f"r{number}"
    assert it.peers.sent == []
    async with it.reading():
        await it.intake.settle()
    assert it.intake.counts["fact"] == 100


@pytest.mark.parametrize(
    ("more", "result"),
    [
        ({"dryRun": True}, "dry_run"),
        ({"subResource": "status"}, "none"),
        ({"operation": "CONNECT"}, "none"),
        ({"oldObject": None}, "none"),
        ({"userInfo": {}}, "none"),
        ({"object": {"metadata": None}}, "malformed"),
        ({"object": []}, "malformed"),
        ({"userInfo": "alice"}, "malformed"),
        ({"dryRun": "yes"}, "malformed"),
    ],
)
async def test_a_review_without_information_is_allowed_and_counted(more: dict[str, Any], result: str) -> None:
    async with Intake().reading() as it:
        assert allowed(await it.intake.review(review(**more))) == "r1"
        await it.intake.settle()
        assert it.peers.sent == []
        assert it.intake.counts[result] == 1
        assert sum(it.intake.counts.values()) == 1
        assert f'author_reviews_total{{result="{result}"}} 1.0' in it.metrics.page(it.metrics.read()).decode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"request": {}}',
        b'{"request": {"uid": 7}}',
        b'{"request": {"uid": "' + b"x" * 300 + b'"}}',
        b'{"request": {"uid": "' + b"x" * 300 + b'", "object": 7}}',
        b"\xff\xfe",
        b'{"request": {"uid": "r"',
        b'{"request":' * 100_000,
        b"[" * 200_000,
    ],
)
async def test_what_is_no_review_is_counted_and_leaves_the_policy_to_decide(body: bytes) -> None:
    it = Intake()
    with pytest.raises(InvalidValue):
        await it.intake.review(body)
    assert it.intake.counts["malformed"] == 1


async def test_an_object_nested_without_end_is_answered() -> None:
    body = review().replace(b'"key": "b"', b'"key": ' + b"[" * 50_000 + b"]" * 50_000)
    async with Intake().reading() as it:
        with contextlib.suppress(InvalidValue):  # too deep even to look for whom to answer
            assert allowed(await it.intake.review(body)) == "r1"
        await it.intake.settle()
        assert it.peers.sent == []


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_FIELDS = ("operation", "resource", "userInfo", "object", "oldObject", "dryRun", "subResource")


@given(st.dictionaries(st.sampled_from(_FIELDS), _JSON))
def test_wrong_types_anywhere_are_answered_with_yes(wrong: dict[str, Any]) -> None:
    async def ask() -> None:
        async with Intake().reading() as it:
            assert allowed(await it.intake.review(review(**wrong))) == "r1"
            await it.intake.settle()
            assert sum(it.intake.counts.values()) == 1

    asyncio.run(ask())


def with_other_byte(place: int, byte: bytes) -> bytes:
    whole = review()
    place %= len(whole)
    return whole[:place] + byte + whole[place + 1 :]


@given(st.binary(max_size=200) | st.builds(with_other_byte, st.integers(0), st.binary(max_size=1)))
def test_any_bytes_are_an_answer_or_a_sentence(body: bytes) -> None:
    async def ask() -> None:
        try:
            answer = await Intake().intake.review(body)
        except InvalidValue:
            return
        assert allowed(answer)

    asyncio.run(ask())


async def test_a_large_object_is_read_beside_the_loop_and_fits_as_well() -> None:
    big = config_map("x" * (2 * LARGE), version="1")
    async with Intake().reading() as it:
        await it.intake.review(review(object=big))
        await it.intake.settle()
        assert it.author(big, "1") == "alice"


@pytest.mark.parametrize("bounds", [IntakeBounds(reviews=3), IntakeBounds(size=3 * len(review()) + 50)])
async def test_a_flood_leaves_doubts_and_never_a_wrong_author(bounds: IntakeBounds) -> None:
    """Bob's request is the one that was stored; there was no room for it, and Alice asked for the same."""
    it = Intake(bounds)
    for user in ("alice", "carol", "dave"):
        await it.intake.review(change(user, user))
    assert allowed(await it.intake.review(change("bob", "alice"))) == "r1"
    async with it.reading():
        await it.intake.settle()
    assert it.intake.counts == {"fact": 3, "none": 0, "dry_run": 0, "malformed": 0, "doubt": 1}
    assert it.author(config_map("b", "alice"), "1") is None
    assert it.author(config_map("b", "carol"), "1") == "carol"
    assert [fact.is_doubt for fact in it.peers.sent] == [True, False, False, False]


async def test_what_waits_is_bounded_however_much_comes() -> None:
    it = Intake(IntakeBounds(reviews=50, size=1 << 20))
    for number in range(2000):
        await it.intake.review(change("alice", f"u{number}"))
    assert len(it.intake._waiting) == 50
    assert it.intake.counts["doubt"] == 1950
    async with it.reading():
        await it.intake.settle()
        await it.intake.review(change("alice", "late"))
        await it.intake.settle()
    assert it.author(config_map("b", "late"), "1") == "alice"
    assert it.intake._size == 0


async def test_a_doubt_about_another_operation_is_none_about_this_one() -> None:
    it = Intake(IntakeBounds(reviews=1))
    await it.intake.review(review())
    await it.intake.review(review("bob", "DELETE", object=None, oldObject=config_map("a", version="1")))
    async with it.reading():
        await it.intake.settle()
    assert it.author(config_map("b"), "1") == "alice"
    assert it.author(config_map("a"), "1", ChangeOperation.DELETE) is None


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE"])
async def test_an_object_that_would_take_too_much_memory_leaves_a_doubt(operation: str) -> None:
    poisoned = {**config_map("b", version="1"), "data": [{}] * 1_000_000}
    body = review(operation=operation, object=poisoned, oldObject=poisoned)
    async with Intake().reading() as it:
        await it.intake.review(body)
        await it.intake.settle()
        (doubt,) = it.peers.sent
        assert doubt.is_doubt
        assert (doubt.uid, doubt.before) == ("u", "1")
        assert it.author(poisoned, "1", ChangeOperation(operation)) is None


def test_reading_a_review_costs_a_few_times_its_size() -> None:
    large = {**config_map(version="1"), "data": {f"key-{n}": "x" * 1000 for n in range(1400)}}
    plain = review(object=large, oldObject=large)
    poisoned = review(object=large, oldObject={**large, "more": [{}] * 300_000})
    hidden = review(object=large, oldObject=large, options=[{}] * 300_000)
    assert peak_of(lambda: parse_fact(plain)) < 6 * len(plain)
    for body in (poisoned, hidden):
        assert peak_of(partial(parse_fact, body)) < 6 * len(body), "only what a fact names is decoded"
    assert peak_of(lambda: asyncio.run(AuthorIntake(AuthorAttribution()).review(hidden))) < 1 << 20


async def test_a_deletion_a_creation_and_a_scale_are_recognized_by_the_same_fields() -> None:
    scaled = {"metadata": {"uid": "u", "resourceVersion": "1"}, "spec": {"replicas": 3}}
    before = {"metadata": {"uid": "u", "resourceVersion": "1"}, "spec": {"replicas": 1}}
    for body, operation, replicas in (
        (review(operation="CREATE", oldObject=None), "CREATE", None),
        (review(operation="DELETE", object=None), "DELETE", None),
        (review(object=scaled, oldObject=before, subResource="scale"), "UPDATE", (1, 3)),
    ):
        fact = parse_fact(body)
        assert fact is not None
        assert fact == request_fact(json.loads(body)["request"])
        assert (fact.operation, fact.replicas) == (operation, replicas)
