"""The signers of all GitRepoConfigs that request signatures; each use reads the key from its Secret.

A replaced key applies from the next commit on. The public key is remembered for the status; the private key
only as long as its Secret has not changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from stoker.api.kinds.destinations import GitRepoConfig
from stoker.domain.intent.source import SecretKey
from stoker.git.auth.secret_login import SSH_KEYS
from stoker.git.commit.types import CommitSigner
from stoker.git.signature.sign import SigningFailed
from stoker.kube.client.client import KubeClient
from stoker.kube.client.secret_reader import NamespaceSecretReader
from stoker.reverser.destinations import RepoConfigRef
from stoker.reverser.manifest.named_secrets import SecretRef
from stoker.reverser.writer.signing_key_check import CheckedSigningKey, check_signing_key


class SigningKeys:
    """Holds one signer for each GitRepoConfig that requests signed commits."""

    def __init__(self, client: KubeClient, cache: Path) -> None:
        self._client = client
        self._cache = cache
        self._wanted: dict[RepoConfigRef, SecretRef] = {}
        self._signers: dict[RepoConfigRef, _SecretKeySigner] = {}

    def follow(self, configs: Sequence[GitRepoConfig]) -> None:
        self._wanted = {
            RepoConfigRef(one.metadata.namespace, one.metadata.name): SecretRef(
                one.metadata.namespace, one.spec.signing.secret_ref.name
            )
            for one in configs
            if one.spec.signing is not None
        }
        self._signers = {
            ref: signer for ref, signer in self._signers.items() if self._wanted.get(ref) == signer.secret
        }

    def signer_of(self, ref: RepoConfigRef) -> CommitSigner | None:
        secret = self._wanted.get(ref)
        if secret is None:
            return None
        if ref not in self._signers:
            self._signers[ref] = _SecretKeySigner(self._client, secret, self._cache)
        return self._signers[ref]

    async def look(self, ref: RepoConfigRef) -> None:
        """Read and check the key of a repository; raises why it cannot sign."""
        self.signer_of(ref)
        if ref in self._signers:
            await self._signers[ref].look()

    def public_key(self, ref: RepoConfigRef) -> str | None:
        """Return the public key; None if it was not read yet."""
        signer = self._signers.get(ref)
        return signer.public_key if signer is not None else None


class _SecretKeySigner:
    def __init__(self, client: KubeClient, secret: SecretRef, cache: Path) -> None:
        self.secret = secret
        self.public_key: str | None = None
        self._client = client
        self._cache = cache
        self._digest = b""
        self._signing: CheckedSigningKey | None = None

    async def sign(self, payload: bytes) -> str:
        return await (await self.look()).signer.sign(payload)

    async def look(self) -> CheckedSigningKey:
        """Return the checked key as its Secret holds it now."""
        reader = NamespaceSecretReader(self._client, self.secret.namespace)
        key = await reader.value(*(SecretKey(self.secret.name, each) for each in SSH_KEYS))
        where = f"Secret {self.secret.namespace}/{self.secret.name}"
        digest = hashlib.sha256(key.reveal_bytes()).digest()
        if self._signing is None or digest != self._digest:
            try:
                self._signing, self._digest = await check_signing_key(key, self._cache), digest
            except SigningFailed as error:
                raise SigningFailed(f"{error.message} (of {where})", reason=error.reason) from None
            self.public_key = self._signing.public_key
        return self._signing
