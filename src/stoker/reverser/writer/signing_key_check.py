"""Check a signing key before the first commit is made with it.

A condition of the GitRepoConfig reports a key that cannot sign, and no commit is pushed without the requested
signature. The public key goes to `status.signingPublicKey`, from where users register it at their forge or
add it to the allowed signers. `stoker.reverser.writer.signing_keys` maps repositories to keys.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from stoker.domain.secrets import Secret
from stoker.git.signature.sign import SshSigner


class CheckedSigningKey(NamedTuple):
    """A key that can sign."""

    signer: SshSigner
    public_key: str
    """The line `type base64`, for `status.signingPublicKey`."""


async def check_signing_key(key: Secret, cache: Path) -> CheckedSigningKey:
    """Sign a test payload; return the signer and its public key.

    `cache` is a folder that only this user can read. Raises SigningFailed with the reason.
    """
    signer = SshSigner(key, cache)
    public = await signer.public_key()
    await signer.sign(b"")
    return CheckedSigningKey(signer, public)
