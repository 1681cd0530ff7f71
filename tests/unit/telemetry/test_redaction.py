"""Canaries planted in every way into a log line, and none that gets out of it."""

from __future__ import annotations

import io
import logging
import time
from dataclasses import dataclass

import pytest

from stoker.domain.errors import Stalled
from stoker.domain.secrets import Secret
from stoker.telemetry import logs
from stoker.telemetry.redaction import MAX_TEXT, redact, redact_text

CANARY = "c4n4ry-S3cr3t"
log = logs.get_logger("tests.secrets")


@dataclass(frozen=True)
class Holder:
    token: Secret


class Unshowable:
    def __str__(self) -> str:
        raise RuntimeError(CANARY)


PEM = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{CANARY}\n-----END OPENSSH PRIVATE KEY-----"

HIDING_PLACES: dict[str, object] = {
    "plain": Secret(CANARY),
    "in_bytes": Secret(CANARY.encode()),
    "in_list": ["a", [Secret(CANARY)]],
    "in_tuple": ("a", Secret(CANARY)),
    "in_mapping": {"a": {"b": Secret(CANARY)}},
    "in_dataclass": Holder(Secret(CANARY)),
    "raw_bytes": CANARY.encode(),
    "userinfo": f"https://user:{CANARY}@host/path",
    "userinfo_token_only": f"https://{CANARY}@host/path",
    "userinfo_with_at": f"https://user:x@{CANARY}@host/path",
    "userinfo_with_slash": f"https://user:x/{CANARY}@host/path",
    "userinfo_twice": f"http://a:b@c and https://user:{CANARY}@host",
    "userinfo_late": "x" * (MAX_TEXT - 20) + f" https://user:{CANARY}@host/" + "y" * MAX_TEXT,
    "inside_text": f"fatal: could not read from 'https://oauth2:{CANARY}@host/x.git/'",
    "authorization": f"Bearer {CANARY}",
    "headers": {"Authorization": f"Basic {CANARY}", "X-GitLab-Token": CANARY, "Set-Cookie": f"id={CANARY}"},
    "header_text": f"GET / HTTP/1.1\r\nAuthorization: Basic {CANARY}\r\nAccept: */*",
    "header_repr": f"{{'Proxy-Authorization': 'Basic {CANARY}'}}",
    "bearer_text": f"sent Bearer {CANARY}{CANARY} to host",
    "api_token": CANARY,
    "apiToken": CANARY,
    "git_password": CANARY,
    "ssh_private_key": CANARY,
    "query": f"https://host/api?access_token={CANARY}&page=2",
    "pem": PEM,
    "pem_without_end": PEM[:60],
    "github": f"remote said ghp_{'a' * 20}{CANARY.replace('-', '')}",
    "error": Stalled(f"cannot fetch https://user:{CANARY}@host"),
    "unshowable": Unshowable(),
    f"https://user:{CANARY}@host": "a key",
}


@pytest.mark.parametrize("where", HIDING_PLACES)
@pytest.mark.parametrize("log_format", ["json", "console"])
def test_no_value_shows_a_secret(where: str, log_format: logs.LogFormat) -> None:
    lines = io.StringIO()
    logs.configure_logging(level="debug", log_format=log_format, stream=lines)
    log.info("planted", **{where: HIDING_PLACES[where]})
    log.info("nested", outer={"inner": [{where: HIDING_PLACES[where]}]})
    with logs.bind_pass(**{where: HIDING_PLACES[where]}):
        log.warning("bound")
        logging.getLogger("some.library").error("foreign")
    logs.configure_logging()
    text = lines.getvalue()
    assert len(text.splitlines()) == 4
    assert CANARY not in text
    assert CANARY.replace("-", "") not in text


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_no_event_text_and_no_foreign_argument_shows_a_secret(log_format: logs.LogFormat) -> None:
    lines = io.StringIO()
    logs.configure_logging(level="debug", log_format=log_format, stream=lines)
    address = f"https://user:{CANARY}@host/x"
    log.info(f"cloning {address}")
    logging.getLogger("aiohttp.client").warning("cannot reach %s with %r", address, Secret(CANARY))
    logs.configure_logging()
    assert len(lines.getvalue().splitlines()) == 2
    assert CANARY not in lines.getvalue()


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_no_exception_shows_a_secret_wherever_it_is_in_the_chain(log_format: logs.LogFormat) -> None:
    def fail(address: str) -> None:
        raise OSError(f"cannot reach {address}")

    lines = io.StringIO()
    logs.configure_logging(log_format=log_format, stream=lines)
    try:
        try:
            fail(f"https://user:{CANARY}@host/x")
        except OSError as error:
            raise ExceptionGroup("several", [Stalled(f"Authorization: Basic {CANARY}"), error]) from error
    except ExceptionGroup:
        log.exception("pass.failed")
        logging.getLogger("asyncio").exception("Task exception was never retrieved")
    logs.configure_logging()
    text = lines.getvalue()
    assert "cannot reach https://<secret>@host/x" in text
    assert CANARY not in text


def test_what_is_not_secret_stays_readable() -> None:
    for text in (
        "https://host:8443/path?page=2 answered 503",
        "git@github.com:org/repo.git",
        "https://host/@scope/package",
        "basic authentication is not allowed",
        "secret plant/git-credentials was not found",
        "Größe 3 µm",
    ):
        assert redact_text(text) == text
    assert redact({"secret_name": "git-credentials", "tokens": 3}) == {
        "secret_name": "git-credentials",
        "tokens": 3,
    }


def test_a_password_across_the_cut_is_not_shown_where_masking_made_room_for_it() -> None:
    key = f"-----BEGIN PRIVATE KEY-----{'k' * 150}-----END PRIVATE KEY-----"
    start = f"{key} https://user:{CANARY}"
    shown = redact_text(f"{start}{'x' * 500}@host", limit=-(-len(start) // 2))
    assert CANARY not in shown
    assert shown.endswith(" characters)")


def test_masking_hostile_text_takes_no_quadratic_time() -> None:
    hostile = "@" + "://a:b" * 100_000 + "x-" * 100_000 + "authorization" * 50_000
    started = time.process_time()
    redact_text(hostile)
    assert time.process_time() - started < 5.0
