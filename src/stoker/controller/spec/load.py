"""Loads a resource: decodes it, merges base and defaults, and converts it to an intent.

It is the first step after the finalizer. The result depends only on spec, annotations and base, so it is
cached until one of them changes: most reconciles are caused by reports of gateways.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from stoker.api.kinds.ignitionsync import IgnitionSyncBaseSpec
from stoker.api.kinds.resource import CustomResource as Model
from stoker.api.manifests.codec import to_wire
from stoker.api.secret_references import secret_references
from stoker.api.to_intent import SettledResource, intent_for, merge_spec
from stoker.controller.cache.informers import ControllerInformers
from stoker.controller.cache.objects import SYNCED_KINDS, CachedResource, ResourceKey, decode_resource
from stoker.controller.spec.unused_fields import IN_EFFECT, fields_without_effect
from stoker.domain.errors import InvalidValue
from stoker.domain.intent.intent import ResourceIntent
from stoker.domain.intent.source import GitAuthKind, SecretKey
from stoker.domain.reasons import Reason


@dataclass(frozen=True, slots=True)
class LoadedSpec:
    """A resource merged with its base and defaults, and its intent."""

    settled: SettledResource[Model]
    intent: ResourceIntent
    idle_fields: tuple[str, ...]
    """Fields that are set and have no effect."""
    git_secrets: tuple[SecretKey, ...]
    """Secret keys without which the repository cannot be reached."""
    secrets: tuple[SecretKey, ...]
    """All Secret keys that it names, those for git first."""
    secret_names: tuple[str, ...]
    """Names of all Secrets in spec, base and defaults, including those that only gateways read."""


class SpecLoader:
    """Loads resources and caches the results."""

    def __init__(
        self, observed: ControllerInformers, defaults: IgnitionSyncBaseSpec, *, shared_volumes: bool = False
    ) -> None:
        self._observed = observed
        self._defaults = defaults
        self._in_effect = IN_EFFECT | {"storage"} if shared_volumes else IN_EFFECT
        self._kept: dict[ResourceKey, tuple[object, LoadedSpec]] = {}

    def of(self, key: ResourceKey, kept: CachedResource) -> LoadedSpec:
        """Return the loaded resource; raise if the resource or its base is invalid."""
        resource = decode_resource(kept, SYNCED_KINDS[key.kind].model)
        base, base_raw = self._observed.base_for(resource)
        metadata = kept.header.metadata
        made_of = (metadata.uid, metadata.generation, metadata.annotations, base_raw)
        known = self._kept.get(key)
        if known is not None and known[0] == made_of:
            return known[1]
        settled = merge_spec(resource, base=base, defaults=self._defaults)
        intent = intent_for(settled)
        refuse_local_source(intent)
        git = tuple(dict.fromkeys(git_secret_keys(intent)))
        secrets = tuple(dict.fromkeys((*git, *other_secret_keys(intent))))
        understood = LoadedSpec(
            settled=settled,
            intent=intent,
            idle_fields=fields_without_effect(resource, self._in_effect),
            git_secrets=git,
            secrets=secrets,
            secret_names=secret_names(settled, secrets),
        )
        self._kept[key] = made_of, understood
        return understood

    def forget(self, key: ResourceKey) -> None:
        self._kept.pop(key, None)


def secret_names(settled: SettledResource[Model], secrets: tuple[SecretKey, ...]) -> tuple[str, ...]:
    """Return the names for `status.secretNames`."""
    spec = msgspec.to_builtins(to_wire(settled.resource))["spec"]
    named = {name for namespace, name in secret_references(spec) if not namespace}
    return tuple(sorted(named | {key.name for key in secrets}))


def refuse_local_source(intent: ResourceIntent) -> None:
    """Refuse file:// sources: no repository is mounted into the controller's container."""
    if intent.source.url.scheme == "file":
        raise InvalidValue(
            "spec.git.repo is a file:// address, which only stoker sync on a machine supports; in a cluster "
            "use a git server, a registry or a bucket",
            reason=Reason.INVALID_SPEC,
        )


def git_secret_keys(intent: ResourceIntent) -> Iterator[SecretKey]:
    auth, source = intent.source.auth, intent.source
    if auth.secret is not None and auth.kind is not GitAuthKind.NONE:
        yield auth.secret
        if auth.kind is GitAuthKind.BASIC:
            yield SecretKey(auth.secret.name, "username")
        if auth.kind is GitAuthKind.SSH and auth.known_hosts is not None:
            yield auth.known_hosts
    if source.ca is not None:
        yield source.ca


def other_secret_keys(intent: ResourceIntent) -> Iterator[SecretKey]:
    signatures, access, receiver = intent.source.signatures, intent.policies.access, intent.receiver
    forge = intent.policies.bidirectional.forge
    wanted = (
        access.api_key,
        access.ca,
        signatures.allowed_signers,
        signatures.gpg_keys,
        receiver.hmac_key if receiver.enabled else None,
        receiver.bearer if receiver.enabled else None,
        forge.token if forge is not None else None,
    )
    yield from (key for key in wanted if key is not None)
