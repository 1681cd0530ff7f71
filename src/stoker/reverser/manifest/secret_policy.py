"""Decide what of a Secret reaches git: everything, nothing, its shape alone, or everything encrypted.

The last step before an object becomes the text of a file. Three sorts of Secrets are never written, whatever
the policy: service account tokens, Helm releases, and the Secrets that the product's own resources name or
that it created (`named_secrets`). `Redact` omits `data` and `stringData` instead of emptying them, so
applying such a file to a living Secret removes nothing from it. `Encrypt` without recipients is refused: it
fails closed.

No function here may put a value of a Secret into a message.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from stoker.api.kinds.destinations import GitRepoConfig
from stoker.domain.errors import Stalled
from stoker.domain.reasons import Reason
from stoker.reverser.manifest.named_secrets import SecretRef, is_own_secret, is_referenced
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.manifest.render import render_object
from stoker.reverser.manifest.sanitize import sanitize
from stoker.reverser.selection.noise import SECRETS, is_helm_release

SERVICE_ACCOUNT_TOKEN = "kubernetes.io/service-account-token"  # noqa: S105 the name of a type
DIGEST_KEYS = "configbutler.ai/digest-keys"
"""The type of the Secret that holds the reverser's digest keys, by which it recognizes unchanged encrypted
files.
"""
_VALUES = ("data", "stringData")


class SecretPolicy(StrEnum):
    """`GitDestination.spec.secretPolicy`."""

    INCLUDE = "Include"
    REDACT = "Redact"
    ENCRYPT = "Encrypt"
    EXCLUDE = "Exclude"


class WithheldSecret(NamedTuple):
    """An object that gets no file, and the reason."""

    why: str


class UnchangedSecret(NamedTuple):
    """The encrypted file in git already holds this content: it stays as it is, under this blob id."""

    blob: str


class SecretSealer(Protocol):
    """Encrypts a Secret for the recipients of a destination."""

    def sealed(self, path: str, plain: dict[str, Any]) -> bytes | UnchangedSecret:
        """Return the file for a sanitized Secret; `UnchangedSecret` if the file in git holds the same."""
        ...


def is_secret(key: ManifestKey) -> bool:
    """Return whether the object is a core Secret; a kind of another group with this name is not."""
    return (key.group, key.resource) == SECRETS


def own_secrets(configs: Collection[GitRepoConfig]) -> frozenset[SecretRef]:
    """Return the login and signing Secrets of the given GitRepoConfigs."""
    refs = (
        SecretRef(config.metadata.namespace, ref.name)
        for config in configs
        for ref in (config.spec.secret_ref, config.spec.signing and config.spec.signing.secret_ref)
        if ref
    )
    return frozenset(refs)


def never_written_reason(obj: Mapping[str, Any], key: ManifestKey, own: Collection[SecretRef]) -> str | None:
    """Return why no policy writes a Secret; None if the policy decides, and for every other kind."""
    if not is_secret(key):
        return None
    if is_referenced(key.namespace, key.name, frozenset(own)):
        return "a resource of this product names it"
    if is_own_secret(obj):
        return "this product made it"
    if obj.get("type") == DIGEST_KEYS:
        return "the reverser recognises by it what it has sealed"
    if obj.get("type") == SERVICE_ACCOUNT_TOKEN:
        return "it is a token of a service account"
    if is_helm_release(obj, key):
        return "it is a release of Helm"
    return None


def object_content(
    obj: dict[str, Any],
    key: ManifestKey,
    path: str,
    *,
    policy: SecretPolicy = SecretPolicy.EXCLUDE,
    own: Collection[SecretRef] = (),
    sealer: SecretSealer | None = None,
) -> bytes | UnchangedSecret | WithheldSecret:
    """Return the file of an object of any kind, or why it gets none."""
    plain = sanitize(obj)
    if not is_secret(key):
        return render_object(plain)
    why = never_written_reason(obj, key, own)
    if why is not None:
        return WithheldSecret(why)
    if policy is SecretPolicy.EXCLUDE:
        return WithheldSecret("the destination's secretPolicy is Exclude")
    if policy is SecretPolicy.REDACT:
        return _redact_document(plain)
    if policy is SecretPolicy.INCLUDE:
        return render_object(plain)
    if sealer is None:
        raise Stalled(f"{key} cannot be encrypted: there is no recipient", reason=Reason.INVALID_SPEC)
    return sealer.sealed(path, plain)


def _redact_document(plain: dict[str, Any]) -> bytes:
    comments = [
        f"{field}, whose values are not written: {', '.join(sorted(values))}"
        for field in _VALUES
        if isinstance(values := plain.get(field), dict) and values
    ]
    return render_object({key: value for key, value in plain.items() if key not in _VALUES}, comments)
