"""Watches the agent's metadata ConfigMap and the SyncProfile that its pod names.

Each object is watched by name, so that a Role can be limited to that name. The informer handles timeouts and
errors. While a watch is down, every iteration of the loop reads the object by GET instead; while no request
succeeds, the last seen object counts. An unavailable API server stops nothing: an object counts as missing
only after the API server has answered that it does not exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from stoker.agent.config_maps import AgentConfigMap
from stoker.api.kinds.stoker import SyncProfile
from stoker.api.manifests.codec import decode
from stoker.domain.clock import Clock
from stoker.domain.errors import InvalidValue, Retry, StokerError
from stoker.domain.reasons import Reason
from stoker.kube.client.client import KubeClient
from stoker.kube.client.deadlines import deadline
from stoker.kube.client.errors import NotFound
from stoker.kube.client.resources import CONFIG_MAPS, ApiResource
from stoker.kube.watch.informer import Informer
from stoker.kube.watch.store import ObjectKey

T = TypeVar("T")

SYNC_PROFILES = ApiResource("stoker.io", "v1alpha1", "syncprofiles", "SyncProfile", namespaced=True)

FIRST_LOOK = 10.0
"""Seconds that the first iteration waits for the first list to succeed or fail."""
ASK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class WatchedValue(Generic[T]):
    """An object as last seen; `value` is None if it does not exist."""

    value: T | None
    uid: str = ""


class SingleObjectInformer(Generic[T]):
    """Watches one object by name."""

    def __init__(
        self,
        client: KubeClient,
        resource: ApiResource,
        namespace: str,
        name: str,
        keep: Callable[[bytes], T],
        changed: Callable[[], None],
        clock: Clock,
        recovered: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self._key = ObjectKey(namespace, name)
        self._client = client
        self._resource = resource
        self._keep = keep
        self._clock = clock
        self._asked: WatchedValue[T] | None = None
        self._task: asyncio.Task[None] | None = None
        self._informer = Informer(
            client,
            resource,
            keep,
            clock,
            namespaces=(namespace,),
            fields=f"metadata.name={name}",
            on_recovered=recovered,
        )
        self._informer.listen(lambda change: changed())

    def start(self) -> None:
        self._task = asyncio.create_task(self._informer.run(), name=f"watch {self._resource} {self.name}")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def look(self) -> WatchedValue[T]:
        """Return the latest known object; raise only if it was never seen and a GET fails."""
        if not self._informer.is_listed:
            with suppress(TimeoutError):
                async with deadline(self._clock, FIRST_LOOK):
                    await self._informer.answered()
        listed = self._informer.is_listed
        if listed and self._informer.is_watching:
            self._asked = None
            return self._stored()
        try:
            return await self._ask()
        except StokerError:
            if self._asked is not None:
                return self._asked
            if listed:
                return self._stored()
            raise

    def _stored(self) -> WatchedValue[T]:
        entry = self._informer.entry(self._key)
        return WatchedValue(None) if entry is None else WatchedValue(entry.value, entry.uid)

    async def _ask(self) -> WatchedValue[T]:
        """Read the object by GET, as a fallback for the watch."""
        try:
            async with deadline(self._clock, ASK_SECONDS):
                raw = await self._client.get(
                    self._resource, self._key.name, self._key.namespace, into=msgspec.Raw
                )
        except NotFound:
            self._asked = WatchedValue(None)
        except TimeoutError:
            raise Retry(
                f"get {self._resource} {self._key}: no answer within {ASK_SECONDS:g} s",
                reason=Reason.UNREACHABLE,
            ) from None
        else:
            content = bytes(raw)
            uid = msgspec.json.decode(content, type=AgentConfigMap).metadata.uid
            self._asked = WatchedValue(self._keep(content), uid)
        return self._asked


class AgentInformers:
    """Watches the metadata ConfigMap from the start, and a profile as soon as the pod names one."""

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        metadata_map: str,
        changed: Callable[[str], None],
        clock: Clock,
        recovered: Callable[[], None] | None = None,
    ) -> None:
        """`recovered` is called when the API server answers again after an outage."""
        self._client = client
        self._namespace = namespace
        self._changed = changed
        self._clock = clock
        self._metadata = SingleObjectInformer(
            client,
            CONFIG_MAPS,
            namespace,
            metadata_map,
            _data_of,
            lambda: changed("metadata"),
            clock,
            recovered,
        )
        self._profile: SingleObjectInformer[bytes] | None = None

    async def run(self) -> None:
        """Watch until cancelled."""
        self._metadata.start()
        try:
            await asyncio.Event().wait()
        finally:
            await self._metadata.stop()
            await self._leave_profile()

    async def metadata(self) -> WatchedValue[dict[str, str]]:
        return await self._metadata.look()

    async def profile(self, name: str) -> SyncProfile | None:
        """Return the named profile and watch it until the name changes; an empty name ends the watch."""
        if self._profile is not None and self._profile.name != name:
            await self._leave_profile()
        if not name:
            return None
        if self._profile is None:
            self._profile = SingleObjectInformer(
                self._client,
                SYNC_PROFILES,
                self._namespace,
                name,
                bytes,
                lambda: self._changed("profile"),
                self._clock,
            )
            self._profile.start()
        raw = (await self._profile.look()).value
        if raw is None:
            return None
        try:
            return decode(raw, SyncProfile)
        except InvalidValue as error:
            raise InvalidValue(
                f"SyncProfile {self._namespace}/{name} cannot be read: {error.message}",
                reason=Reason.INVALID_SPEC,
            ) from None

    async def _leave_profile(self) -> None:
        if self._profile is not None:
            await self._profile.stop()
            self._profile = None


def _data_of(raw: bytes) -> dict[str, str]:
    return msgspec.json.decode(raw, type=AgentConfigMap).data or {}
