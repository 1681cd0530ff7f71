"""Sets up ssh for one git process: a key file, known_hosts, fixed options.

git runs a small script as its ssh command. The script contains every option and no user-supplied value. It
changes into the private folder of this call, where the key and known_hosts have fixed names, so that ssh
never reads a path or a part of an address as an option, a pattern or a command. ssh reads neither the
user's nor the machine's configuration, uses no agent and forwards nothing.

The key is validated before any connection, because ssh would only report "invalid format".
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from pathlib import Path

from stoker.domain.errors import InvalidValue, Misconfigured
from stoker.domain.refs import RepoUrl
from stoker.domain.secrets import Secret
from stoker.git.auth.credentials import GitSshKey
from stoker.git.auth.known_hosts import (
    MAX_BYTES,
    host_and_port,
    known_hosts_name,
    known_keys,
    lines_for,
    offered_key,
)
from stoker.git.errors import HostKeyNotTrusted
from stoker.git.private_files import install_script, write_private
from stoker.git.process.passwd import has_ssh_user, ssh_user_environment

UNVERIFIED_HOST_WARNING = "SSH host key verification disabled — MITM risk"
MAX_KEY_BYTES = 64 * 1024

_OPTIONS = (
    "BatchMode=yes",
    "LogLevel=DEBUG1",  # needed to learn which key the server presented
    "IdentityFile=key",
    "IdentitiesOnly=yes",
    "IdentityAgent=none",
    "AddKeysToAgent=no",
    "PreferredAuthentications=publickey",
    "UserKnownHostsFile=known_hosts",
    "GlobalKnownHostsFile=/dev/null",
    "UpdateHostKeys=no",
    "VerifyHostKeyDNS=no",
    "CheckHostIP=no",
    "CanonicalizeHostname=no",
    "ControlMaster=no",
    "ControlPath=none",
    "ProxyCommand=none",
    "PermitLocalCommand=no",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "RequestTTY=no",
    # A dead server must not block git: 30 s to connect, then 60 s without an answer.
    "ConnectTimeout=30",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=4",
)
# Only ssh itself gets LD_PRELOAD for the user name (`stoker.git.process.passwd`); git and sh need none.
_SCRIPT = (
    '#!/bin/sh\ncd "$STOKER_SSH_FOLDER" || exit 255\n'
    'if [ -n "$STOKER_SSH_PRELOAD" ]; then LD_PRELOAD=$STOKER_SSH_PRELOAD; export LD_PRELOAD; fi\n'
    'if [ -n "$STOKER_SSH_ADDRESS" ]; then set -- -o HostName="$STOKER_SSH_ADDRESS" "$@"; fi\n'
    "exec ssh -F /dev/null "
    + " ".join(f"-o {option}" for option in _OPTIONS)
    + ' -o HostKeyAlias="$STOKER_SSH_HOST" -o StrictHostKeyChecking="$STOKER_SSH_STRICT" "$@"\n'
).encode()

_PRIVATE = re.compile(
    rb"-----BEGIN (?P<kind>(?:[A-Z0-9]+ )*)PRIVATE KEY-----\n(?P<body>.*?)\n"
    rb"-----END (?P=kind)PRIVATE KEY-----",
    re.S,
)
_PUBLIC = re.compile(
    rb"(?:ssh-|ecdsa-|sk-)\S+ |-----BEGIN (?:RSA )?PUBLIC KEY-----|---- BEGIN SSH2 PUBLIC KEY"
)
_SSH_DEBUG_LINE = re.compile(
    r"^(?:debug\d: |OpenSSH_|Authenticated to |Transferred: |Bytes per second: ).*$\n?", re.M
)


def install_ssh(folder: Path) -> Path:
    """Install the script that git runs as ssh, in a folder that only this user can enter."""
    return install_script(folder / "ssh", _SCRIPT)


def ssh_environment(
    folder: Path, url: RepoUrl, login: GitSshKey, require_known_hosts: bool
) -> dict[str, str]:
    """Write key and known_hosts into the folder of this call; return the variables for the script."""
    _require_user()
    if login.known_hosts is None and require_known_hosts:
        raise HostKeyNotTrusted(
            f"known_hosts is demanded and not given for {known_hosts_name(url)}; "
            f"set git.auth.sshKey.knownHostsSecretRef"
        )
    write_private(folder / "key", repair_key(login.key), 0o600)
    host, port = host_and_port(url)
    known_hosts = lines_for(_repair_known_hosts(login.known_hosts or b""), host, port)
    write_private(folder / "known_hosts", known_hosts, 0o600)
    if login.known_hosts is None:
        from stoker.telemetry.logs import get_logger  # noqa: PLC0415 - costs start-up where no ssh is used

        get_logger(__name__).warning(UNVERIFIED_HOST_WARNING, host=known_hosts_name(url))
    named = ssh_user_environment(folder)
    if preload := named.pop("LD_PRELOAD", None):
        named["STOKER_SSH_PRELOAD"] = preload
    return {
        **named,
        "GIT_SSH_VARIANT": "ssh",
        "STOKER_SSH_FOLDER": str(folder),
        "STOKER_SSH_HOST": host,
        "STOKER_SSH_STRICT": "no" if login.known_hosts is None else "yes",
    }


def repair_key(key: Secret) -> bytes:
    """Return a private key as ssh reads it, with Windows line ends and a missing last line end fixed."""
    raw = key.reveal_bytes()
    if len(raw) > MAX_KEY_BYTES:
        raise InvalidValue(f"the ssh key is larger than {MAX_KEY_BYTES} bytes")
    text = raw.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").strip() + b"\n"
    if _PUBLIC.match(text):
        raise InvalidValue("the ssh key is a public key; the private one is needed")
    if text.startswith(b"PuTTY-User-Key-File"):
        raise InvalidValue("the ssh key is in PuTTY's form; export it as an OpenSSH key")
    found = _PRIVATE.search(text)
    if found is None:
        raise InvalidValue("the ssh key is not a private key in OpenSSH or PEM form")
    if _is_encrypted(found["kind"].strip(), found["body"]):
        raise InvalidValue("the ssh key is encrypted; store it without a passphrase")
    return found[0] + b"\n"


def strip_ssh_debug(said: str) -> str:
    """Return the errors of ssh and git without ssh's debug output."""
    return _SSH_DEBUG_LINE.sub("", said)


def host_key_error(said: str, url: RepoUrl, login: GitSshKey) -> HostKeyNotTrusted:
    """Return the error for an untrusted host key: the known keys and the key that the server presented."""
    name, port = host_and_port(url)
    host = known_hosts_name(url)
    lines = lines_for(_repair_known_hosts(login.known_hosts or b""), name, port)
    known = [str(key) for key in known_keys(lines, name)]
    offered = offered_key(said)
    came = f"it came with {offered}" if offered else "ssh did not say what it came with"
    if not known:
        return HostKeyNotTrusted(f"host {host} is not in known_hosts; {came}")
    return HostKeyNotTrusted(
        f"host {host} did not show a key that is known for it: known {', '.join(known)}; {came}; "
        f"if its key was replaced on purpose, bring known_hosts up to date"
    )


def _is_encrypted(kind: bytes, body: bytes) -> bool:
    if kind == b"ENCRYPTED" or b"Proc-Type: 4,ENCRYPTED" in body:
        return True
    if kind != b"OPENSSH":
        return False
    try:
        raw = base64.b64decode(body)
    except binascii.Error:
        return False  # ssh reports the malformed key
    head = b"openssh-key-v1\0"
    length = int.from_bytes(raw[len(head) : len(head) + 4], "big")
    return raw.startswith(head) and raw[len(head) + 4 :][:length] != b"none"


def _repair_known_hosts(known_hosts: bytes) -> bytes:
    if len(known_hosts) > MAX_BYTES:
        raise InvalidValue(f"known_hosts is larger than {MAX_BYTES} bytes")
    return known_hosts.replace(b"\r\n", b"\n").rstrip() + b"\n"


def _require_user() -> None:
    """Raise if the user id has no name: ssh would fail with "No user exists for uid"."""
    if not has_ssh_user():
        raise Misconfigured(
            f"ssh refuses to run for user id {os.getuid()}, which has no entry in /etc/passwd; "
            f"add one to the image or install libnss-wrapper there, or use an https address"
        )
