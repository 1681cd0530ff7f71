"""Verifies that an ssh signature was made by a principal in the allowed-signers file.

`ssh-keygen` reads the file and supports its whole syntax: patterns, certificate authorities, namespaces,
validity periods. As in git, validity is checked at the time that the commit or tag itself claims, so a key
that was retired with `valid-before` still verifies older commits.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from stoker.domain.errors import Misconfigured
from stoker.git.errors import git_message
from stoker.git.private_files import write_private
from stoker.git.process.passwd import has_ssh_user
from stoker.git.signature.armor import NAMESPACE, Signature, ssh_armor
from stoker.git.signature.programs import run_program
from stoker.git.signature.signed_objects import SignatureInvalid, SignedContent

MAX_PRINCIPALS = 20


async def ssh_signer(content: SignedContent, signature: Signature, allowed: bytes, folder: Path) -> str:
    """Return the principal in the allowed signers who signed; `folder` is private to this call."""
    check_ssh_user()
    if not _has_lines(allowed):
        raise Misconfigured("the allowed signers name no signer")
    write_private(folder / "allowed_signers", allowed, 0o600)
    write_private(folder / "signature", ssh_armor(signature.raw), 0o600)
    common = ["-f", "allowed_signers", "-s", "signature", f"-Overify-time={_signing_time(content)}"]
    found = await run_program(["ssh-keygen", "-Y", "find-principals", *common], home=folder)
    # A principal of the key proves nothing yet: the signature must also match the content and be for git.
    names = found.output.decode(errors="replace").split("\n")[:-1] if found.code == 0 else []
    for name in names[:MAX_PRINCIPALS]:
        arguments = ["-Y", "verify", "-n", NAMESPACE.decode(), "-I", name, *common]
        answer = await run_program(["ssh-keygen", *arguments], home=folder, stdin=content.payload)
        if answer.code == 0:
            return git_message(name)
    key = f"ssh key {signature.fingerprint}"
    if names:
        raise SignatureInvalid(
            f"{content.what} has a signature by {key} that does not fit its content or is not meant for git"
        )
    raise SignatureInvalid(
        f"{content.what} is signed with {key}, which the allowed signers do not name for the day "
        f"that it claims to be from, {datetime.fromtimestamp(content.when, UTC):%Y-%m-%d}"
    )


def _has_lines(allowed: bytes) -> bool:
    return any(line.strip() and not line.lstrip().startswith(b"#") for line in allowed.splitlines())


def _signing_time(content: SignedContent) -> str:
    return f"{datetime.fromtimestamp(content.when, UTC):%Y%m%d%H%M%S}"


def check_ssh_user() -> None:
    """Raise if the user id has no name: `ssh-keygen` would fail with "No user exists for uid"."""
    if not has_ssh_user():
        raise Misconfigured(
            f"ssh signatures can be neither made nor checked: ssh-keygen does not run as user {os.getuid()}, "
            "who has no line in /etc/passwd; install libnss-wrapper beside it"
        )
