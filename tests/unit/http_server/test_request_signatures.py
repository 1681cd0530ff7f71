"""Signatures of requests: which callers are authentic, and how much of a body is read."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator

import pytest

from stoker.domain.secrets import Secret
from stoker.http_server.request_signatures import (
    has_bearer_token,
    has_credentials,
    has_gitlab_token,
    is_authentic,
    is_signed_with,
    read_capped,
)

SECRET = Secret("s3cret")
BODY = b'{"ref": "refs/heads/main"}'


def signature(body: bytes = BODY, key: bytes = b"s3cret") -> str:
    return hmac.new(key, body, hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Hub-Signature-256": f"sha256={signature()}"},
        {"X-Hub-Signature": f"sha256={signature()}"},
        {"X-Gitea-Signature": signature()},
        {"X-Forgejo-Signature": signature()},
        {"X-Gogs-Signature": signature().upper()},
        {"X-Gitlab-Token": "s3cret"},
        {"Authorization": "Bearer s3cret"},
        {"Authorization": "bearer  s3cret"},
    ],
)
def test_every_forge_that_knows_the_secret_is_authentic(headers: dict[str, str]) -> None:
    assert is_authentic(headers, BODY, SECRET)
    assert not is_authentic(headers, BODY, Secret("another"))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Hub-Signature-256": ""},
        {"X-Hub-Signature-256": "sha256="},
        {"X-Hub-Signature-256": f"sha256={signature(b'other')}"},
        {"X-Hub-Signature-256": f"sha1={signature()}"},
        {"X-Gitlab-Token": ""},
        {"X-Gitlab-Token": "s3cre"},
        {"X-Gitlab-Token": "s\xe9cret"},
        {"Authorization": "Basic s3cret"},
        {"Authorization": "s3cret"},
        {"X-Hub-Signature-256": "\udcff"},
    ],
)
def test_a_caller_without_the_secret_is_not_authentic(headers: dict[str, str]) -> None:
    assert not is_authentic(headers, BODY, SECRET)


def test_each_way_to_know_a_secret_is_its_own() -> None:
    signed = {"X-Hub-Signature-256": f"sha256={signature()}"}
    assert is_signed_with(signed, BODY, SECRET)
    assert not has_gitlab_token(signed, SECRET)
    assert not has_bearer_token(signed, SECRET)
    assert has_bearer_token({"Authorization": "Bearer s3cret"}, SECRET)
    assert has_gitlab_token({"X-Gitlab-Token": "s3cret"}, SECRET)


@pytest.mark.parametrize(
    ("headers", "claims"),
    [
        ({}, False),
        ({"X-Hub-Signature-256": ""}, False),
        ({"X-GitHub-Event": "push"}, False),
        ({"X-Gitea-Signature": "x"}, True),
        ({"X-Gitlab-Token": "x"}, True),
        ({"Authorization": "Basic x"}, True),
    ],
)
def test_a_request_without_any_signature_is_recognized_before_its_body_is_read(
    headers: dict[str, str], claims: bool
) -> None:
    assert has_credentials(headers) is claims


async def test_no_more_is_taken_than_was_agreed() -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield b"x" * 10

    assert await read_capped(endless(), 25) is None
    assert taken == 3


@pytest.mark.parametrize("size", [0, 24, 25])
async def test_what_fits_is_taken_whole(size: int) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(size):
            yield b"x"

    assert await read_capped(chunks(), 25) == b"x" * size


@pytest.mark.parametrize(
    "headers", [{}, {"X-Hub-Signature-256": f"sha256={signature(key=b'')}"}, {"Authorization": "Bearer "}]
)
def test_an_empty_secret_matches_no_caller(headers: dict[str, str]) -> None:
    assert not is_authentic(headers, BODY, Secret(""))
