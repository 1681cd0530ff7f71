"""Checks that every object a resource names exists: Secrets and their keys, storage class, profiles.

Each missing object is a finding with its exact name, and no finding stops the reconcile: the commit is still
resolved and published where that is possible. The watch sees when the object appears, so the user need not
touch the resource. Storage classes are not watched; the validator reads a named class again after
`STORAGE_CLASS_TTL_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from stoker.api.kinds.stoker import SyncProfile
from stoker.controller.cache.gateways import GatewayFleet
from stoker.controller.cache.informers import ControllerInformers
from stoker.controller.cache.objects import ResourceKey
from stoker.controller.cache.secrets import SecretKeyNames
from stoker.controller.spec.load import LoadedSpec
from stoker.domain.clock import Clock
from stoker.domain.cycles import refuse_cycle
from stoker.domain.errors import InvalidValue, Stalled, StokerError
from stoker.domain.intent.intent import ResourceIntent
from stoker.domain.intent.source import SecretKey
from stoker.domain.reasons import Reason
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import Forbidden, NotFound
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import STORAGE_CLASSES
from stoker.kube.client.secret_reader import missing_secret, missing_secret_key
from stoker.kube.watch.store import ObjectKey

STORAGE_CLASS_TTL_SECONDS = 60.0


class ReferenceValidator:
    """Checks that the objects named by a resource exist."""

    def __init__(self, observed: ControllerInformers, client: KubeClient, clock: Clock) -> None:
        self._observed = observed
        self._client = client
        self._clock = clock
        self._keys = SecretKeyNames(client)
        self._classes: dict[str, float] = {}

    async def missing_keys(self, key: ResourceKey, wanted: tuple[SecretKey, ...]) -> dict[SecretKey, Stalled]:
        """Return the missing Secret keys, each with the error to report."""
        namespace = key.object.namespace
        missing: dict[SecretKey, Stalled] = {}
        for one in wanted:
            secret = ObjectKey(namespace, one.name)
            seen = self._observed.secrets.get(secret)
            if seen is None:
                missing[one] = missing_secret(namespace, one.name)
                continue
            try:
                if one.key not in await self._keys.of(secret, seen.version):
                    missing[one] = missing_secret_key(namespace, one)
            except NotFound:
                missing[one] = missing_secret(namespace, one.name)
        return missing

    async def storage_class(self, intent: ResourceIntent) -> StokerError | None:
        name = intent.shared_volume.storage_class if intent.shared_volume is not None else ""
        now = self._clock.monotonic()
        if not name or self._classes.get(name, 0.0) > now:
            return None
        try:
            await self._client.get(STORAGE_CLASSES, name, into=ObjectHeader)
        except Forbidden:
            return None  # no right to read it, as with named namespaces; the claim itself will report it
        except NotFound:
            return Stalled(
                f"storage.storageClassName names StorageClass {name!r}, which does not exist",
                reason=Reason.STORAGE_CLASS_NOT_FOUND,
            )
        self._classes[name] = now + STORAGE_CLASS_TTL_SECONDS
        return None

    def forget_others(self, named: Callable[[ObjectKey], bool]) -> None:
        """Drop cached key names of Secrets that no resource names any more."""
        self._keys.forget_others(named)

    def secret_versions(self, key: ResourceKey, understood: LoadedSpec) -> tuple[str, ...]:
        """The versions of the Secrets for the repository; they change when a Secret changes."""
        names = dict.fromkeys(one.name for one in understood.git_secrets)
        seen = (self._observed.secrets.get(ObjectKey(key.object.namespace, name)) for name in names)
        return tuple("" if one is None else f"{one.uid}/{one.version}" for one in seen)


def fleet_findings(
    intent: ResourceIntent, fleet: GatewayFleet, profiles: Mapping[str, SyncProfile]
) -> Iterator[StokerError]:
    """Yield the errors that concern the gateways of a resource as a whole. Pure."""
    if intent.single_gateway and len(fleet.gateways) > 1:
        named = ", ".join(one.name for one in fleet.gateways[:5])
        yield Stalled(
            f"storage.accessMode is ReadWriteOnce, and {len(fleet.gateways)} gateways refer to the resource: "
            f"{named}",
            reason=Reason.INVALID_ACCESS_MODE,
        )
    waits_for = profile_dependencies(profiles)
    for name in dict.fromkeys(one.profile for one in fleet.gateways if one.profile):
        if name not in profiles:
            user = next(one for one in fleet.gateways if one.profile == name)
            where = f"{intent.identity.namespace}/{name}"
            yield Stalled(
                f"SyncProfile {where}, which gateway {user.name} names, does not exist",
                reason=Reason.PROFILE_NOT_FOUND,
            )
            continue
        try:
            refuse_cycle(name, waits_for, what="SyncProfile")
        except InvalidValue as error:
            yield error


def profile_dependencies(profiles: Mapping[str, SyncProfile]) -> dict[str, tuple[str, ...]]:
    """The profiles that each profile depends on."""
    return {
        name: tuple(one.profile_name for one in profile.spec.depends_on or ())
        for name, profile in profiles.items()
    }
