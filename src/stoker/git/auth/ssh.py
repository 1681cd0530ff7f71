"""ssh for one git process: a key file, the keys of known servers, fixed options.

git is given a small script as its ssh. The script holds every option and no value
of anybody; it changes into a private folder of this one call, in which key and
known_hosts lie under fixed names, so that no path or word of an address is ever
read as an option, a pattern or a command. Neither the user's nor the machine's
ssh configuration is read, no agent is asked, and nothing is forwarded.

The key is checked before anything connects: ssh would only say "invalid format".
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
    "LogLevel=DEBUG1",  # below it ssh does not say which key a server came with
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
    # A peer that dies must not hold us: half a minute to connect, a minute of silence later on.
    "ConnectTimeout=30",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=4",
)
# Only ssh itself is told the name of a user without one; git and the shell need none.
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
    """The script that git runs as ssh, in a folder that only this user may enter."""
    return install_script(folder / "ssh", _SCRIPT)


def ssh_environment(
    folder: Path, url: RepoUrl, login: GitSshKey, require_known_hosts: bool
) -> dict[str, str]:
    """Put key and known_hosts into the folder of this call; what the script needs to find them."""
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
    """A private key as ssh reads it; line ends of Windows and a missing last one are mended."""
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
    """What ssh and git complained about, without ssh's account of how it connected."""
    return _SSH_DEBUG_LINE.sub("", said)


def host_key_error(said: str, url: RepoUrl, login: GitSshKey) -> HostKeyNotTrusted:
    """Why the server was not believed: what is known of it, and what it came with."""
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
        return False  # ssh will say so
    head = b"openssh-key-v1\0"
    length = int.from_bytes(raw[len(head) : len(head) + 4], "big")
    return raw.startswith(head) and raw[len(head) + 4 :][:length] != b"none"


def _repair_known_hosts(known_hosts: bytes) -> bytes:
    if len(known_hosts) > MAX_BYTES:
        raise InvalidValue(f"known_hosts is larger than {MAX_BYTES} bytes")
    return known_hosts.replace(b"\r\n", b"\n").rstrip() + b"\n"


def _require_user() -> None:
    """ssh ends with "No user exists for uid" before it reads any option."""
    if not has_ssh_user():
        raise Misconfigured(
            f"ssh refuses to run for user id {os.getuid()}, which has no entry in /etc/passwd; "
            f"add one to the image or install libnss-wrapper there, or use an https address"
        )
