"""Credentials from a command: the `exec` users of a kubeconfig (client.authentication.k8s.io).

The owner of the kubeconfig chose the command. It runs with their permissions, without a terminal, with a
timeout, and with bounded output. Its credentials are kept in memory until they expire, and requested again
after a 401. Its standard output is never shown. Its standard error is, because it explains failures; the
values that the kubeconfig passed to it are removed first.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import msgspec

from stoker.domain.clock import Clock, parse_rfc3339, rfc3339
from stoker.domain.errors import Misconfigured
from stoker.domain.secrets import HIDDEN, Secret
from stoker.domain.text import one_line
from stoker.kube.config.credentials import RequestIdentity, bearer_header, decode_secret
from stoker.kube.config.tls import ClientCertificate

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
PLUGIN_TIMEOUT_SECONDS = 60.0
MAX_OUTPUT_BYTES = 1024 * 1024
STDERR_KEPT = 64 * 1024
STDERR_SHOWN = 500
# A value as short as `1` or `yes` is a switch, and hiding it would garble every message.
MIN_REDACTED_LENGTH = 4


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """One `exec` entry of a kubeconfig."""

    command: str
    api_version: str
    where: str
    """The user and the file that name it, for errors."""
    args: tuple[str, ...] = ()
    env: Mapping[str, Secret] = field(default_factory=dict)
    install_hint: str = ""
    cluster: Mapping[str, object] | None = field(default=None, repr=False)
    """The cluster information for the command, if the kubeconfig requests it (`provideClusterInfo`)."""

    def exec_info(self) -> str:
        """Return the request to the plug-in, the value of KUBERNETES_EXEC_INFO."""
        spec: dict[str, object] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        request = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(request).decode()

    def fails(self, why: str) -> Misconfigured:
        return Misconfigured(f"the credential plug-in {Path(self.command).name} of {self.where} {why}")


class _ExecCredentialStatus(msgspec.Struct, rename="camel"):
    token: Secret | None = None
    client_certificate_data: str | None = None
    client_key_data: Secret | None = None
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _ExecCredentialStatus | None = None


class ExecCredentials:
    """An identity that a command prints; at most one runs at a time, however many requests wait."""

    def __init__(
        self,
        plugin: ExecPlugin,
        *,
        clock: Clock,
        environ: Mapping[str, str],
        certificate: ClientCertificate | None = None,
        seconds: float = PLUGIN_TIMEOUT_SECONDS,
    ) -> None:
        self._plugin = plugin
        self._clock = clock
        self._environ = environ
        self._certificate = certificate
        self._seconds = seconds
        self._identity: RequestIdentity | None = None
        self._expires: datetime | None = None
        self._turn = asyncio.Lock()

    async def current(self) -> RequestIdentity:
        async with self._turn:
            if self._identity is None or (self._expires is not None and self._expires <= self._clock.now()):
                return await self._ask()
            return self._identity

    async def renew(self, refused: RequestIdentity) -> bool:
        async with self._turn:
            if self._identity is not None and self._identity != refused:
                return True  # another request that was refused has already renewed it
            return await self._ask() != refused

    async def _ask(self) -> RequestIdentity:
        output = await run_plugin(self._plugin, self._environ, self._seconds)
        granted = _parse_credential(self._plugin, output)
        expires = _expiry(self._plugin, granted)
        if expires is not None and expires <= self._clock.now():
            raise self._plugin.fails(f"gave a credential that expired at {rfc3339(expires)}")
        self._identity = self._identity_of(granted)
        self._expires = expires
        return self._identity

    def _identity_of(self, granted: _ExecCredentialStatus) -> RequestIdentity:
        certificate = self._certificate
        if granted.client_certificate_data and granted.client_key_data:
            certificate = ClientCertificate(granted.client_certificate_data.encode(), granted.client_key_data)
            certificate.refuse_unless_valid(self._clock.now(), self._plugin.where)
        elif granted.client_certificate_data or granted.client_key_data:
            raise self._plugin.fails("gave a certificate without its key, or a key without its certificate")
        elif not granted.token:
            raise self._plugin.fails("gave neither a token nor a certificate")
        return RequestIdentity(
            bearer_header(granted.token, self._plugin.where) if granted.token else None, certificate
        )


async def run_plugin(plugin: ExecPlugin, environ: Mapping[str, str], seconds: float) -> bytes:
    """Run the command once and return its output."""
    environment = {
        **environ,
        **{name: value.reveal() for name, value in plugin.env.items()},
        "KUBERNETES_EXEC_INFO": plugin.exec_info(),
    }
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except FileNotFoundError:
        hint = f"; {one_line(plugin.install_hint, 300)}" if plugin.install_hint else ""
        raise plugin.fails(f"is not installed{hint}") from None
    except (OSError, ValueError) as error:
        raise plugin.fails(f"cannot be started: {getattr(error, 'strerror', None) or 'bad name'}") from None
    try:
        async with asyncio.timeout(seconds):
            output, complaint = await asyncio.gather(_read_output(process), _read_error_tail(process))
            code = await process.wait()
    except BaseException as error:
        await _abandon(process)
        if isinstance(error, TimeoutError):
            raise plugin.fails(f"did not end within {seconds:g} s") from None
        raise
    if output is None:
        raise plugin.fails(f"printed more than {MAX_OUTPUT_BYTES} bytes")
    if code != 0:
        words = _without_values(plugin, complaint) or "it does not say why"
        raise plugin.fails(f"ended with code {code}: {words}")
    return output


async def _read_output(process: asyncio.subprocess.Process) -> bytes | None:
    """Return the output, or None if it exceeds the limit; the command is then killed."""
    kept = bytearray()
    while chunk := await _require_stream(process.stdout).read(65536):
        kept += chunk
        if len(kept) > MAX_OUTPUT_BYTES:
            _kill_session(process)
            return None
    return bytes(kept)


async def _read_error_tail(process: asyncio.subprocess.Process) -> str:
    """Return the end of standard error; the rest is read so that the command does not block, and dropped."""
    kept = b""
    while chunk := await _require_stream(process.stderr).read(65536):
        kept = (kept + chunk)[-STDERR_KEPT:]
    return kept.decode("utf-8", "replace")


def _require_stream(stream: asyncio.StreamReader | None) -> asyncio.StreamReader:
    if stream is None:
        raise AssertionError("both outputs are pipes")
    return stream


def _kill_session(process: asyncio.subprocess.Process) -> None:
    """Kill the command and its children, which are in a session of their own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _abandon(process: asyncio.subprocess.Process) -> None:
    _kill_session(process)
    # Its pipes close with it, unless a child left the session and keeps them open.
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.communicate(), 2.0)


def _without_values(plugin: ExecPlugin, complaint: str) -> str:
    for value in plugin.env.values():
        if len(value.reveal_bytes()) >= MIN_REDACTED_LENGTH:
            complaint = complaint.replace(value.reveal(), HIDDEN)
    return one_line(complaint, STDERR_KEPT)[-STDERR_SHOWN:]


def _parse_credential(plugin: ExecPlugin, output: bytes) -> _ExecCredentialStatus:
    try:
        answer = msgspec.json.decode(output, type=_ExecCredential, dec_hook=decode_secret)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise plugin.fails("did not print an ExecCredential in JSON") from None
    if answer.kind != "ExecCredential" or answer.status is None:
        raise plugin.fails("did not print an ExecCredential with a status")
    if answer.api_version != plugin.api_version:
        said = one_line(answer.api_version, 80)
        raise plugin.fails(f"answers in {said}, and the kubeconfig says {plugin.api_version}")
    return answer.status


def _expiry(plugin: ExecPlugin, granted: _ExecCredentialStatus) -> datetime | None:
    if not granted.expiration_timestamp:
        return None
    try:
        return parse_rfc3339(granted.expiration_timestamp)
    except (ValueError, OverflowError):
        raise plugin.fails("gave an expirationTimestamp that is not a time") from None
