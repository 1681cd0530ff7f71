"""Verifies the required signature of a commit before any of it is applied.

`stoker.git.signature.policy` calls it. It fails closed: unless there is a valid signature by one of the given
keys over exactly the object that will be delivered, the commit is refused with a reason. The content of the
repository never influences which programs and files are used for verification.

    commit   the commit itself must be signed
    tag      the ref must be a signed annotated tag. Its own name must be the requested name, or a signed
             tag could be passed off as another release, and it must lead to this commit. Tags between
             them need no signature, because the signed tag names them by id
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from stoker.domain.errors import Misconfigured
from stoker.domain.intent.source import SignatureMode
from stoker.domain.refs import CommitId, GitRef
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import Remote
from stoker.git.remote.tags import TagObject, fetch_tag_object, tag_name
from stoker.git.signature.armor import SignatureKind, parse_signature
from stoker.git.signature.gpg import gpg_signer
from stoker.git.signature.programs import temporary_folder
from stoker.git.signature.signed_objects import (
    MAX_SHOWN,
    SignatureInvalid,
    SignatureMissing,
    SignedContent,
    parse_tag,
    read_object,
    signed_commit,
    signed_tag,
)
from stoker.git.signature.ssh import ssh_signer

MAX_KEYS_BYTES = 1 << 20
MAX_TAGS_OF_TAGS = 8

_PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY")


@dataclass(frozen=True, slots=True)
class TrustedKeys:
    """The keys whose signatures are accepted: an ssh allowed-signers file, GPG public keys, or both."""

    allowed_signers: bytes | None = None
    gpg_keys: bytes | None = None


@dataclass(frozen=True, slots=True)
class VerifiedSignature:
    """The signer (a principal of the allowed signers or the user id of a GPG key) and the key."""

    by: str
    kind: SignatureKind
    fingerprint: str


async def check_signature(
    remote: Remote, repository: Path, *, mode: SignatureMode, ref: GitRef, commit: CommitId, keys: TrustedKeys
) -> VerifiedSignature | None:
    """Raise unless `commit`, which `ref` led to and `repository` has, is signed as `mode` requires."""
    if mode is SignatureMode.NONE:
        return None
    _check_keys(keys)
    tag = None
    if mode is SignatureMode.TAG:
        tag = await fetch_tag_object(remote, repository, tag_name(ref), commit)
    return await verify_signature(remote.runner, repository, mode=mode, commit=commit, tag=tag, keys=keys)


async def verify_signature(
    runner: GitRunner,
    repository: Path,
    *,
    mode: SignatureMode,
    commit: CommitId,
    tag: TagObject | None,
    keys: TrustedKeys,
) -> VerifiedSignature:
    """Verify the commit's or, in tag mode, the tag's signature; both objects must be in `repository`."""
    _check_keys(keys)
    if mode is SignatureMode.TAG:
        content = await _tag_content(runner, repository, commit, tag)
    else:
        content = signed_commit(await read_object(runner, repository, "commit", commit), commit)
    return await _signer(content, keys, runner)


async def _tag_content(
    runner: GitRunner, repository: Path, commit: CommitId, tag: TagObject | None
) -> SignedContent:
    if tag is None:
        raise SignatureMissing(
            f"commit {commit} was not asked for by a tag, and only signed tags are accepted"
        )
    raw = await read_object(runner, repository, "tag", tag.id)
    content = signed_tag(raw, tag.id)
    own = parse_tag(raw, tag.id)
    if own.name != tag.name:
        raise SignatureInvalid(f"tag {tag.name!r} was signed under another name, {own.name[:MAX_SHOWN]!r}")
    for _ in range(MAX_TAGS_OF_TAGS):
        if own.kind != "tag":
            break
        own = parse_tag(await read_object(runner, repository, "tag", own.target), own.target)
    if (own.kind, own.target) != ("commit", commit):
        raise SignatureInvalid(f"tag {tag.name!r} leads to {own.kind} {own.target}, not to commit {commit}")
    return content


async def _signer(content: SignedContent, keys: TrustedKeys, runner: GitRunner) -> VerifiedSignature:
    signature = parse_signature(content.signature, content.what)
    trusted = keys.allowed_signers if signature.kind == "ssh" else keys.gpg_keys
    if trusted is None:
        lacking = "allowed signers" if signature.kind == "ssh" else "GPG keys"
        raise SignatureInvalid(
            f"{content.what} has a signature by {signature.kind}, and no {lacking} are given"
        )
    with temporary_folder(runner) as folder:
        if signature.kind == "ssh":
            principal = await ssh_signer(content, signature, trusted, folder)
            return VerifiedSignature(principal, "ssh", signature.fingerprint)
        signer = await gpg_signer(content, signature, trusted, folder)
        return VerifiedSignature(signer.name, "gpg", signer.fingerprint)


def _check_keys(keys: TrustedKeys) -> None:
    given = {"allowed signers": keys.allowed_signers, "GPG keys": keys.gpg_keys}
    if all(content is None for content in given.values()):
        raise Misconfigured("signatures are required, but neither allowed signers nor GPG keys are given")
    for name, content in given.items():
        if content is not None and len(content) > MAX_KEYS_BYTES:
            raise Misconfigured(f"the {name} are longer than {MAX_KEYS_BYTES} bytes")
        if content is not None and _PRIVATE_KEY.search(content):
            raise Misconfigured(f"the {name} hold a private key; give public keys only")
