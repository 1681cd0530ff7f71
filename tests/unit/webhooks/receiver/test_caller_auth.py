"""Authentication of callers for a resource; an unknown caller cannot see what exists."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from stoker.domain.intent.delivery import ReceiverPolicy
from stoker.domain.intent.intent import ResourceIdentity, ResourceIntent, SyncResourceKind
from stoker.domain.intent.source import SecretKey, SourceIntent
from stoker.domain.refs import GitRef, RepoUrl
from stoker.domain.secrets import Secret
from stoker.http_server import request_signatures
from stoker.webhooks.receiver.caller_auth import CallerAuthResult, CallerKeys, authenticate
from stoker.webhooks.receiver.index import IndexedResource, ReceiverIndex, indexed_resource

BODY = b'{"ref": "2.0.0"}'
HMAC, TOKEN = SecretKey("hook", "hmac-key"), SecretKey("hook", "token")
STOKER = IndexedResource(
    ResourceIdentity(SyncResourceKind.STOKER, "site1", "plant"), GitRef("main"), hmac_key=HMAC, bearer=TOKEN
)
IGNITION = IndexedResource(
    ResourceIdentity(SyncResourceKind.IGNITION_SYNC, "site1", "plant"),
    GitRef("main"),
    hmac_key=SecretKey("old", "key"),
)
SECRETS = {
    ("site1", HMAC): Secret("stoker-key"),
    ("site1", TOKEN): Secret("stoker-token"),
    ("site1", SecretKey("old", "key")): Secret("ignition-key"),
    ("site2", HMAC): Secret("another-namespace"),
}
OPERATOR = CallerKeys(Secret("operator-key"), Secret("operator-token"))


def signed(key: str) -> dict[str, str]:
    return {"X-Hub-Signature-256": "sha256=" + hmac.new(key.encode(), BODY, hashlib.sha256).hexdigest()}


def bearing(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def ask(
    headers: dict[str, str], *found: IndexedResource, operator: CallerKeys = OPERATOR
) -> CallerAuthResult:
    return authenticate(headers, BODY, found, operator, lambda namespace, key: SECRETS.get((namespace, key)))


@pytest.mark.parametrize(
    "headers",
    [
        signed("stoker-key"),
        {"X-Gitlab-Token": "stoker-key"},
        {"X-Gitlab-Token": "stoker-token"},
        bearing("stoker-token"),
    ],
)
def test_the_key_of_a_resource_opens_that_resource(headers: dict[str, str]) -> None:
    assert ask(headers, STOKER, IGNITION) == CallerAuthResult(True, (STOKER,))


def test_of_two_kinds_with_one_name_the_one_whose_key_fits_is_meant() -> None:
    assert ask(signed("ignition-key"), STOKER, IGNITION) == CallerAuthResult(True, (IGNITION,))


def test_both_are_meant_when_both_keys_fit() -> None:
    twin = IndexedResource(IGNITION.identity, GitRef("main"), hmac_key=HMAC)
    assert set(ask(signed("stoker-key"), STOKER, twin).about) == {STOKER, twin}


@pytest.mark.parametrize("headers", [signed("operator-key"), bearing("operator-token")])
def test_the_operators_key_opens_all_and_reveals_a_missing_resource(headers: dict[str, str]) -> None:
    assert set(ask(headers, STOKER, IGNITION).about) == {STOKER, IGNITION}
    assert ask(headers) == CallerAuthResult(True, ())


@pytest.mark.parametrize(
    "headers",
    [
        {},
        signed("wrong"),
        signed("another-namespace"),
        signed("stoker-token"),
        bearing("stoker-key"),
        bearing("wrong"),
        signed(""),
        bearing(""),
    ],
)
def test_no_other_caller_is_accepted(headers: dict[str, str]) -> None:
    assert ask(headers, STOKER, IGNITION) == CallerAuthResult(False)
    assert ask(headers, operator=CallerKeys()) == CallerAuthResult(False)


def test_a_resource_that_is_turned_off_is_as_good_as_none() -> None:
    off = IndexedResource(STOKER.identity, GitRef("main"), hmac_key=HMAC, enabled=False)
    assert ask(signed("stoker-key"), off) == CallerAuthResult(False)
    assert ask(signed("operator-key"), off) == CallerAuthResult(True, ())


def test_a_resource_without_a_key_or_without_its_secret_accepts_no_caller() -> None:
    for known in (
        IndexedResource(STOKER.identity, GitRef("main")),
        IndexedResource(STOKER.identity, GitRef("main"), hmac_key=SecretKey("gone", "key")),
    ):
        assert ask(signed(""), known) == CallerAuthResult(False)


def test_strangers_cost_the_same_whether_there_is_anything_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    same = request_signatures._is_equal_digest

    def counting(header: str, expected: bytes) -> bool:
        compared.append(len(header))
        return same(header, expected)

    monkeypatch.setattr(request_signatures, "_is_equal_digest", counting)
    work = []
    for found in ([], [STOKER], [STOKER, IGNITION], [IndexedResource(STOKER.identity, GitRef("main"))]):
        compared.clear()
        ask(signed("wrong"), *found)
        work.append(list(compared))
    assert work[0]
    assert all(one == work[0] for one in work)


def test_the_index_finds_both_kinds_and_forgets_one_at_a_time() -> None:
    index = ReceiverIndex()
    index.put(STOKER)
    index.put(IGNITION)
    index.put(STOKER)
    assert len(index) == 2
    assert set(index.find("site1", "plant")) == {STOKER, IGNITION}
    assert index.find("site2", "plant") == ()
    index.forget(STOKER.identity)
    assert index.find("site1", "plant") == (IGNITION,)
    index.forget(IGNITION.identity)
    index.forget(IGNITION.identity)
    assert index.find("site1", "plant") == ()
    assert len(index) == 0


def test_what_is_known_of_a_resource_follows_from_its_intent() -> None:
    intent = ResourceIntent(
        STOKER.identity,
        SourceIntent(RepoUrl("https://git.example.com/plant.git"), GitRef("main")),
        receiver=ReceiverPolicy(enabled=False, hmac_key=HMAC, bearer=TOKEN, allowed_refs=("v*",)),
    )
    assert indexed_resource(intent) == IndexedResource(
        STOKER.identity, GitRef("main"), ("v*",), HMAC, TOKEN, enabled=False
    )
    assert indexed_resource(intent, GitRef("2.0.0")).effective_ref == "2.0.0"
