"""Verifies that a GPG signature was made with one of the given keys.

gpg runs with a temporary home folder that contains only these keys, without an agent, a key server or a
configuration. Only its machine-readable status lines are parsed, so a user id or comment that imitates a
message of gpg has no effect. Every doubtful signature is refused, including a signature or key that was
valid once and has expired.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from stoker.domain.errors import Misconfigured
from stoker.git.errors import git_message
from stoker.git.private_files import write_private
from stoker.git.signature.armor import Signature
from stoker.git.signature.programs import run_program
from stoker.git.signature.signed_objects import SignatureInvalid, SignedContent

_GPG = (
    "gpg",
    "--no-options",
    "--batch",
    "--no-tty",
    "--no-autostart",
    "--disable-dirmngr",
    "--no-auto-key-retrieve",
    "--trust-model=always",  # the user who configured the keys trusts them
    "--status-fd=1",
)
_STATUS = "[GNUPG:] "
_REFUSED = {
    "BADSIG": "does not fit its content",
    "EXPSIG": "has expired",
    "EXPKEYSIG": "was made with a key that has expired",
    "REVKEYSIG": "was made with a key that has been revoked",
    "NO_PUBKEY": "was made with none of the GPG keys that are trusted",
    "ERRSIG": "cannot be checked with the GPG keys that are trusted",
}
_BINARY = "00"  # the other class, text, ignores changed line ends
_WEAK_HASHES = {"1": "MD5", "2": "SHA-1", "3": "RIPEMD-160"}
_PRIVATE_READ = 9  # the index in IMPORT_RES of the number of private keys


class _GpgValidSig(NamedTuple):
    """The used fields of a VALIDSIG line, which gnupg's doc/DETAILS describes."""

    hash: str
    kind: str
    primary: str


class GpgSigner(NamedTuple):
    name: str
    fingerprint: str


async def gpg_signer(content: SignedContent, signature: Signature, keys: bytes, folder: Path) -> GpgSigner:
    """Return the signer by the key's user id; `folder` is private to this call and becomes gpg's home."""
    trusted = await _import_keys(keys, folder)
    write_private(folder / "signature", signature.raw, 0o600)
    gpg = [*_GPG, f"--homedir={folder}", "--verify", "--", "signature", "-"]
    answer = await run_program(gpg, home=folder, stdin=content.payload)
    said = list(_status_lines(answer.output))
    for word, why in _REFUSED.items():
        if any(found == word for found, _ in said):
            raise SignatureInvalid(f"{content.what} has a GPG signature that {why}")
    good = [rest for found, rest in said if found == "GOODSIG"]
    valid = [_parse_valid(rest) for found, rest in said if found == "VALIDSIG"]
    begun = sum(found == "NEWSIG" for found, _ in said)
    if answer.code != 0 or len(good) != 1 or len(valid) != 1 or begun != 1 or valid[0] is None:
        raise SignatureInvalid(f"{content.what} has a GPG signature that gpg does not call good")
    if valid[0].primary not in trusted:
        raise SignatureInvalid(f"{content.what} has a GPG signature that {_REFUSED['NO_PUBKEY']}")
    if valid[0].kind != _BINARY or valid[0].hash in _WEAK_HASHES:
        weak = _WEAK_HASHES.get(valid[0].hash, "text that may be changed")
        raise SignatureInvalid(f"{content.what} has a GPG signature over {weak}, which proves too little")
    return GpgSigner(git_message(good[0].partition(" ")[2]), valid[0].primary)


async def _import_keys(keys: bytes, folder: Path) -> frozenset[str]:
    """Import the keys, the only keys of this home; return their fingerprints."""
    answer = await run_program([*_GPG, f"--homedir={folder}", "--import"], home=folder, stdin=keys)
    said = list(_status_lines(answer.output))
    totals = [rest.split(" ") for word, rest in said if word == "IMPORT_RES"]
    if any(words[_PRIVATE_READ : _PRIVATE_READ + 1] != ["0"] for words in totals):
        raise Misconfigured("the GPG keys hold a private key; give public keys only")
    trusted = frozenset(rest.partition(" ")[2] for word, rest in said if word == "IMPORT_OK")
    if not trusted:
        raise Misconfigured("the GPG keys hold no public key that gpg can read")
    return trusted


def _status_lines(output: bytes) -> Iterator[tuple[str, str]]:
    """Yield the status lines as keyword and arguments."""
    for line in output.decode(errors="replace").split("\n"):
        if line.startswith(_STATUS):
            word, _, rest = line.removeprefix(_STATUS).partition(" ")
            yield word, rest


def _parse_valid(rest: str) -> _GpgValidSig | None:
    words = rest.split(" ")
    return _GpgValidSig(words[7], words[8], words[9]) if len(words) >= 10 else None
