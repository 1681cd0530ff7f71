"""A key that signs commits, tried before the first one is made.

What a key cannot do is said in a condition of its GitRepoConfig, and nothing is pushed
without the signature that was asked for. The public half is for `status.signingPublicKey`,
from where people give it to their forge or put it among the allowed signers. Which
repository has which key is `stoker.reverser.writer.signing_keys`.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from stoker.domain.secrets import Secret
from stoker.git.signature.sign import SshSigner
from stoker.reverser.writer.credentials import SSH_KEYS

KEYS = SSH_KEYS
"""Under which names the key may stand in its Secret; the first that is there counts."""


class CheckedSigningKey(NamedTuple):
    """A key that works."""

    signer: SshSigner
    public_key: str
    """The line `type base64`, for `status.signingPublicKey`."""


async def check_signing_key(key: Secret, cache: Path) -> CheckedSigningKey:
    """A key together with its public half, once it has signed something.

    `cache` is a folder of this user alone. Raises SigningFailed with the reason.
    """
    signer = SshSigner(key, cache)
    public = await signer.public_key()
    await signer.sign(b"")
    return CheckedSigningKey(signer, public)
