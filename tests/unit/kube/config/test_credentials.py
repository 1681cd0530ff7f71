"""Identities: from files that others replace, and from real plug-in commands."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker.domain.clock import rfc3339
from stoker.domain.errors import Misconfigured
from stoker.domain.secrets import Secret
from stoker.kube.config import config
from stoker.kube.config.credentials import (
    FileCredentials,
    KubeCredentials,
    RequestIdentity,
    StaticCredentials,
    bearer_header_from_file,
)
from stoker.kube.config.exec_plugin import API_VERSIONS, MAX_OUTPUT_BYTES, ExecCredentials, ExecPlugin
from stoker_testkit.certificates import Authority
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.wait_until import eventually_async

CANARY = "canary-3f9c1a"
NOW = datetime.now(UTC)


async def token(credentials: KubeCredentials) -> str:
    header = (await credentials.current()).authorization
    assert header is not None
    return header.reveal().removeprefix("Bearer ")


async def test_a_fixed_identity_is_never_renewed() -> None:
    fixed = StaticCredentials(RequestIdentity(Secret("Bearer x")))
    assert not await fixed.renew(await fixed.current())


async def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    clock = ManualClock()
    credentials = FileCredentials(lambda: RequestIdentity(bearer_header_from_file(file)), clock)
    file.write_text("second\n")
    await clock.advance(59)
    assert await token(credentials) == "first"
    await clock.advance(1)
    assert await token(credentials) == "second"


async def test_a_token_file_is_read_again_at_once_when_the_token_was_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    credentials = FileCredentials(lambda: RequestIdentity(bearer_header_from_file(file)), ManualClock())
    refused = await credentials.current()
    assert not await credentials.renew(refused), "the same token would be refused again"
    file.write_text("second")
    assert await credentials.renew(refused)
    assert await token(credentials) == "second"


async def test_a_token_file_that_is_being_replaced_leaves_the_old_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    clock = ManualClock()
    credentials = FileCredentials(lambda: RequestIdentity(bearer_header_from_file(file)), clock)
    file.unlink()
    await clock.advance(61)
    assert await token(credentials) == "first"
    assert not await credentials.renew(await credentials.current())
    file.write_text("second")
    await clock.advance(61)
    assert await token(credentials) == "second"


class Script:
    """A plug-in on disk: a Python script that counts its runs and then does what the test says."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "plugin"
        self.runs = folder / "runs"
        self._folder = folder

    def does(self, body: str) -> None:
        prelude = f"#!{sys.executable} -I\nimport json, os, sys, time\n"
        count = f"open({str(self.runs)!r}, 'a').write('x')\n"
        self.path.write_text(prelude + count + body)
        self.path.chmod(0o755)

    def prints(self, status: object, *, api_version: str = API_VERSIONS[0]) -> None:
        answer = {"apiVersion": api_version, "kind": "ExecCredential", "status": status}
        self.does(f"sys.stdout.write({json.dumps(answer)!r})\n")

    @property
    def count(self) -> int:
        return self.runs.stat().st_size if self.runs.exists() else 0

    def credentials(
        self, clock: ManualClock | None = None, *, seconds: float = 20.0, **options: Any
    ) -> ExecCredentials:
        plugin = ExecPlugin(
            command=str(self.path), api_version=API_VERSIONS[0], where="the user 'me' of config", **options
        )
        return ExecCredentials(plugin, clock=clock or ManualClock(NOW), environ=os.environ, seconds=seconds)


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path)


async def test_a_plugin_is_asked_once_for_many_requests(script: Script) -> None:
    script.prints({"token": CANARY})
    credentials = script.credentials()
    assert await asyncio.gather(*(token(credentials) for _ in range(10))) == [CANARY] * 10
    assert script.count == 1
    assert CANARY not in repr(await credentials.current())


async def test_a_plugin_is_asked_again_when_its_credential_expires(script: Script) -> None:
    clock = ManualClock(NOW)
    script.prints({"token": "first", "expirationTimestamp": rfc3339(NOW + timedelta(minutes=10))})
    credentials = script.credentials(clock)
    assert await token(credentials) == "first"
    script.prints({"token": "second", "expirationTimestamp": "2999-01-01T00:00:00.123456789Z"})
    await clock.advance(599)
    assert await token(credentials) == "first"
    await clock.advance(2)
    assert await token(credentials) == "second"
    assert script.count == 2


async def test_a_refused_credential_is_renewed_once_however_many_requests_it_failed(script: Script) -> None:
    script.prints({"token": "first"})
    credentials = script.credentials()
    refused = await credentials.current()
    script.prints({"token": "second"})
    assert await asyncio.gather(*(credentials.renew(refused) for _ in range(5))) == [True] * 5
    assert script.count == 2
    refused = await credentials.current()
    assert not await credentials.renew(refused), "the plug-in has nothing newer"


async def test_a_plugin_may_give_a_certificate(script: Script) -> None:
    certificate = Authority().client("me")
    status = {
        "clientCertificateData": certificate.pem.decode(),
        "clientKeyData": certificate.key_pem.decode(),
    }
    script.prints(status)
    identity = await script.credentials().current()
    assert identity.authorization is None
    assert identity.certificate is not None
    assert identity.certificate.chain == certificate.pem
    assert identity.certificate.key.reveal_bytes() == certificate.key_pem


async def test_a_plugin_gets_the_request_it_is_asked_for(script: Script) -> None:
    script.does(
        "request = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "facts = [request['spec'], sys.argv[1:], os.environ['REGION'], sys.stdin.read()]\n"
        "token = json.dumps(facts).encode().hex()\n"
        "request['status'] = {'token': token}\n"
        "print(json.dumps(request))\n"
    )
    credentials = script.credentials(
        args=("--cluster", "dev"), env={"REGION": Secret("north")}, cluster={"server": "https://host"}
    )
    facts = json.loads(bytes.fromhex(await token(credentials)))
    assert facts == [
        {"interactive": False, "cluster": {"server": "https://host"}},
        ["--cluster", "dev"],
        "north",
        "",
    ]


def gives(**status: object) -> Callable[[Script], None]:
    return lambda script: script.prints(status)


def does(body: str) -> Callable[[Script], None]:
    return lambda script: script.does(body)


EXPIRED = Authority().client("me", valid_for=timedelta(days=-2))


@pytest.mark.parametrize(
    ("prepare", "text"),
    [
        (lambda script: None, "is not installed; get it from the shelf"),
        (lambda script: script.path.write_text("no program"), "cannot be started: Permission denied"),
        (does("sys.exit('no such account')"), "ended with code 1: no such account"),
        (does("sys.exit(3)"), "ended with code 3: it does not say why"),
        (
            does("sys.exit('bad key ' + os.environ['ACCESS_KEY'])"),
            "ended with code 1: bad key <secret>",
        ),
        (does("sys.stderr.write('x' * 500_000 + '\\nthe end'); sys.exit(1)"), "the end"),
        (does("while True: print('x' * 10_000)"), f"printed more than {MAX_OUTPUT_BYTES} bytes"),
        (does(f"print('{CANARY}')"), "did not print an ExecCredential in JSON"),
        (does("os.write(1, b'\\xff\\xfe')"), "did not print an ExecCredential in JSON"),
        (does("print('{}')"), "did not print an ExecCredential in JSON"),
        (
            does(f"print(json.dumps({{'apiVersion': '{API_VERSIONS[0]}', 'kind': 'ExecCredential'}}))"),
            "did not print an ExecCredential with a status",
        ),
        (
            lambda script: script.prints({"token": CANARY}, api_version=API_VERSIONS[1]),
            f"answers in {API_VERSIONS[1]}, and the kubeconfig says {API_VERSIONS[0]}",
        ),
        (gives(), "gave neither a token nor a certificate"),
        (gives(token=""), "gave neither a token nor a certificate"),
        (gives(token=CANARY, clientKeyData=CANARY), "gave a certificate without its key, or a key without"),
        (
            gives(token=CANARY, expirationTimestamp="tomorrow"),
            "gave an expirationTimestamp that is not a time",
        ),
        (
            gives(token=CANARY, expirationTimestamp="2020-01-01T00:00:00Z"),
            "gave a credential that expired at 2020-01-01T00:00:00Z",
        ),
        (gives(token=[CANARY]), "did not print an ExecCredential in JSON"),
    ],
)
async def test_a_failing_plugin_is_described_in_one_sentence(
    script: Script, prepare: Callable[[Script], None], text: str
) -> None:
    prepare(script)
    credentials = script.credentials(
        install_hint="get it from\nthe shelf", env={"ACCESS_KEY": Secret(CANARY), "EMPTY": Secret("")}
    )
    with pytest.raises(Misconfigured) as refused:
        await credentials.current()
    message = refused.value.message
    assert message.startswith("the credential plug-in plugin of the user 'me' of config ")
    assert text in message
    assert CANARY not in message
    assert "\n" not in message
    assert len(message) < 700


async def test_an_expired_certificate_from_a_plugin_is_described(script: Script) -> None:
    script.prints({"clientCertificateData": EXPIRED.pem.decode(), "clientKeyData": EXPIRED.key_pem.decode()})
    with pytest.raises(Misconfigured, match="the client certificate of the user 'me' of config expired at"):
        await script.credentials().current()


async def test_a_token_that_cannot_be_in_a_header_is_refused(script: Script) -> None:
    script.prints({"token": f"{CANARY}\r\nX-Evil: 1"})
    with pytest.raises(Misconfigured, match=r"^the user 'me' of config holds no usable token$"):
        await script.credentials().current()


async def test_a_hanging_plugin_is_ended_with_everything_it_started(script: Script, tmp_path: Path) -> None:
    child = tmp_path / "child"
    script.does(
        "import subprocess\n"
        f"child = subprocess.Popen(['sleep', '600'])\nopen({str(child)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    with pytest.raises(Misconfigured, match="did not end within 1 s"):
        await script.credentials(seconds=1.0).current()
    ended: bool = await eventually_async(
        lambda: not _runs(int(child.read_text())), 10.0, "the plug-in's own child to be gone"
    )
    assert ended


async def test_giving_up_on_a_plugin_ends_it(script: Script, tmp_path: Path) -> None:
    started = tmp_path / "started"
    script.does(f"open({str(started)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n")
    task = asyncio.create_task(script.credentials().current())
    up: bool = await eventually_async(lambda: started.exists() and bool(started.read_text()), 10.0, "a start")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert up
    assert not _runs(int(started.read_text()))


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize("api_version", API_VERSIONS)
async def test_a_kubeconfig_names_its_plugin(script: Script, tmp_path: Path, api_version: str) -> None:
    script.does(
        "request = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "cluster = json.dumps(request['spec'].get('cluster')).encode().hex()\n"
        "request['status'] = {'token': cluster + '.' + os.environ['REGION']}\n"
        "print(json.dumps(request))\n"
    )
    plugin = {
        "apiVersion": api_version,
        "command": "./plugin",
        "args": None,
        "env": [{"name": "REGION", "value": "north"}],
        "provideClusterInfo": api_version == API_VERSIONS[0],
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "me"}}
    cluster = {
        "server": "https://host:6443/",
        "tls-server-name": "inside",
        "proxy-url": "http://proxy:3128",
        "extensions": [{"name": "other"}, extension],
    }
    content = {
        "current-context": "dev",
        "clusters": [{"name": "dev", "cluster": cluster}],
        "users": [{"name": "me", "user": {"exec": plugin}}],
        "contexts": [{"name": "dev", "context": {"cluster": "dev", "user": "me"}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(content))
    settings = config.load_config(tmp_path / "config", environ={}, clock=ManualClock(NOW))
    result, _, region = (await token(settings.credentials)).partition(".")
    assert region == "north"
    expected = {
        "server": "https://host:6443",
        "tls-server-name": "inside",
        "proxy-url": "http://proxy:3128",
        "config": {"audience": "me"},
    }
    assert json.loads(bytes.fromhex(result)) == (expected if api_version == API_VERSIONS[0] else None)
