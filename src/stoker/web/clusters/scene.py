"""All resources and destinations of a cluster as pages show them, kept as the cluster is.

Every replica has one, whether it leads or not: it lists and watches by itself, and keeps of each
object only what a page shows. A kind that is not installed, or that this account may not read, is
not shown, and the log says so once. One that was shown and cannot be read for a minute is not shown
as it was: nobody gets a picture until it is read again, and open pages hear of it. What a visitor may
not see never leaves here; whether they may is asked by `stoker.web.clusters.gate`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, TypeAlias, TypeVar

import msgspec

from stoker.domain.clock import Clock, SystemClock, rfc3339
from stoker.domain.errors import StokerError
from stoker.kube.client import Client
from stoker.kube.reflector import Reflector
from stoker.kube.resources import CONFIG_MAPS, Resource
from stoker.kube.store import Change, ObjectKey
from stoker.telemetry.logs import get_logger
from stoker.web.clusters.blindness import Blind, blind_to
from stoker.web.clusters.destinations import (
    ConfigKey,
    SeenConfig,
    SeenDestination,
    joined,
    seen_config,
    seen_destination,
)
from stoker.web.clusters.histories import past_of
from stoker.web.clusters.kinds import ALL, CONFIG, DESTINATION, PAUSE_MAP, SYNCED
from stoker.web.clusters.resources import Seen, id_of, seen
from stoker.web.clusters.rights import buttons, sees
from stoker.web.clusters.stopping import NOT_STOPPED, SeenStop, seen_stop
from stoker.web.pictures import Changes, DestinationNow, GatewayPast, Picture, ResourceNow, Stop
from stoker.web.seams import CLUSTER, GatewayKey, Sight
from stoker.web.versions import Versions

T = TypeVar("T")
Shown: TypeAlias = Seen | tuple[SeenDestination, SeenConfig | None] | SeenStop | Blind

PAGE = 50
"""Objects in one page of a list: a status may be half a megabyte, and next to nothing of it is kept."""
LOOK_SECONDS = 5.0
_STOP = "stop"
_BLIND = "blind"

log = get_logger(__name__)


class ClusterScene:
    """What can be seen of a cluster, or of some of its namespaces."""

    def __init__(
        self,
        client: Client,
        home: str,
        namespaces: Collection[str] = (),
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._clock = clock or SystemClock()
        self._scopes: Collection[str | None] = namespaces or (None,)
        self._shown: Versions[Shown] = Versions()
        self._shown.set(_STOP, NOT_STOPPED)
        self._unseen: dict[str, str] = {}
        self._unlisted: set[str] = set()
        self._looked = asyncio.Event()
        self._configs: dict[ConfigKey, SeenConfig] = {}
        self._uses: defaultdict[ConfigKey, set[str]] = defaultdict(set)
        """The destinations of each repository."""
        self._blind = Blind()
        self._reflectors: list[Reflector[Any]] = [
            *(
                one
                for kind in SYNCED
                for one in self._watched(ALL[kind], partial(seen, kind), self._resource(kind))
            ),
            *self._watched(ALL[DESTINATION], seen_destination, self._destination),
            *self._watched(ALL[CONFIG], seen_config, self._config),
            self._reflector(CONFIG_MAPS, seen_stop, self._stop, home, fields=f"metadata.name={PAUSE_MAP}"),
        ]

    mode = CLUSTER

    async def run(self) -> None:
        """Keep it as the cluster is, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run(), name=f"dashboard {reflector.resource}")
            for reflector in self._reflectors:
                group.create_task(self._until_listed(reflector))
            group.create_task(self._watch_over())

    async def looked(self) -> None:
        """Wait until each kind was listed once, or could not be: before that there is little to see."""
        await self._looked.wait()

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        return tuple(self._reflectors)

    def places(self, kind: str) -> set[str]:
        """The namespaces in which there is an object of this kind, or may be."""
        if None not in self._scopes:
            return {one for one in self._scopes if one is not None}
        watched = (one for one in self._reflectors if one.resource == ALL[kind])
        return {key.namespace for one in watched for key, _ in one.store.items()}

    # What a page asks.

    def version(self) -> int:
        return self._shown.version

    async def changed(self, seen: int) -> int:
        return await self._shown.changed(seen)

    def picture(self, sight: Sight) -> Picture:
        self._blind.check()
        everything = [self._told(value, sight) for _, value in self._shown]
        return Picture(
            version=self._shown.version,
            mode=self.mode,
            at=rfc3339(self._clock.now()),
            stop=next((one for one in everything if isinstance(one, Stop)), Stop()),
            resources=tuple(one for one in everything if isinstance(one, ResourceNow)),
            destinations=tuple(one for one in everything if isinstance(one, DestinationNow)),
        )

    def changes(self, seen: int, sight: Sight) -> Changes | None:
        self._blind.check()
        since = self._shown.since(seen)
        if since is None:
            return None
        values = (self._shown.get(key) for key in since.changed)
        told = [self._told(value, sight) for value in values if value is not None]
        gone = [key for key in since.gone if _may_know(key, sight)]
        return Changes(
            version=self._shown.version,
            resources=tuple(one for one in told if isinstance(one, ResourceNow)),
            gone=tuple(key for key in gone if not _is_destination(key)),
            destinations=tuple(one for one in told if isinstance(one, DestinationNow)),
            gone_destinations=tuple(key for key in gone if _is_destination(key)),
            stop=next((one for one in told if isinstance(one, Stop)), None),
        )

    def gateway(self, key: GatewayKey, sight: Sight) -> GatewayPast | None:
        self._blind.check()
        found = self._shown.get(id_of(key.kind, key.namespace, key.name))
        if not isinstance(found, Seen) or not sees(sight, key.kind, key.namespace):
            return None
        for one in found.now.gateways:
            if one.name == key.gateway:
                past = past_of(key.gateway, found.past)
                return GatewayPast(gateway=one, history=past.history, snapshots=past.snapshots)
        return None

    def _told(self, value: Shown, sight: Sight) -> ResourceNow | DestinationNow | Stop | None:
        """As this visitor is told of it; None: not at all."""
        if isinstance(value, Blind):
            return None
        if isinstance(value, SeenStop):
            return Stop(active=value.active, since=value.since, may=sight.may_stop)
        if isinstance(value, Seen):
            now = value.now
            if not sees(sight, now.kind, now.namespace):
                return None
            return msgspec.structs.replace(now, may=buttons(sight, now.kind, now.namespace))
        destination, config = value
        if not sees(sight, DESTINATION, destination.now.namespace):
            return None
        return joined(destination, config, may_see=sees(sight, CONFIG, destination.config.namespace))

    # What the cluster tells.

    def _resource(self, kind: str) -> Callable[[Change[Seen]], None]:
        def changed(change: Change[Seen]) -> None:
            self._put(id_of(kind, *change.key), change.new)

        return changed

    def _destination(self, change: Change[SeenDestination]) -> None:
        old, new, id_ = change.old, change.new, id_of(DESTINATION, *change.key)
        if old is not None:
            self._unused(old.config, id_)
        if new is not None:
            self._uses[new.config].add(id_)
        self._put(id_, None if new is None else (new, self._configs.get(new.config)))

    def _unused(self, config: ConfigKey, id_: str) -> None:
        self._uses[config].discard(id_)
        if not self._uses[config]:
            del self._uses[config]

    def _config(self, change: Change[SeenConfig]) -> None:
        key = ConfigKey(*change.key)
        if change.new is None:
            self._configs.pop(key, None)
        else:
            self._configs[key] = change.new
        for id_ in sorted(self._uses.get(key, ())):
            shown = self._shown.get(id_)
            if isinstance(shown, tuple) and isinstance(shown[0], SeenDestination):
                self._put(id_, (shown[0], change.new))

    def _stop(self, change: Change[SeenStop]) -> None:
        self._put(_STOP, change.new or NOT_STOPPED)

    def _put(self, key: str, value: Shown | None) -> None:
        if value is None:
            self._shown.remove(key)
        else:
            self._shown.set(key, value)

    # How it is watched.

    def _watched(
        self, resource: Resource, keep: Callable[[bytes], T], changed: Callable[[Change[T]], None]
    ) -> Iterator[Reflector[T]]:
        for namespace in self._scopes:
            yield self._reflector(resource, keep, changed, namespace)

    def _reflector(
        self,
        resource: Resource,
        keep: Callable[[bytes], T],
        changed: Callable[[Change[T]], None],
        namespace: str | None,
        *,
        fields: str | None = None,
    ) -> Reflector[T]:
        what = _words(resource, namespace)
        self._unlisted.add(what)

        def on_change(change: Change[T]) -> None:
            self._unseen.pop(what, None)
            changed(change)

        return Reflector(
            self._client,
            resource,
            namespace=namespace,
            fields=fields,
            keep=keep,
            on_change=on_change,
            on_error=partial(self._cannot_see, what),
            on_refused=partial(_unreadable, resource),
            page_size=PAGE,
            clock=self._clock,
        )

    async def _watch_over(self) -> None:
        """Setting it wakes every page, also those to which nothing else would be told."""
        while True:
            blind = blind_to(self._reflectors, self._clock.monotonic())
            if blind != self._blind:
                self._blind = blind
                self._put(_BLIND, blind)
                blind.log()
            await self._clock.sleep(LOOK_SECONDS)

    async def _until_listed(self, reflector: Reflector[Any]) -> None:
        await reflector.synced()
        self._listed(_words(reflector.resource, reflector.namespace))

    def _listed(self, what: str) -> None:
        self._unlisted.discard(what)
        if not self._unlisted:
            self._looked.set()

    def _cannot_see(self, what: str, error: StokerError) -> None:
        """Once for each reason: it is tried again for as long as the process lives."""
        self._listed(what)
        if self._unseen.get(what) != error.reason:
            self._unseen[what] = error.reason
            log.warning("dashboard.unseen", kind=what, reason=error.reason, error=error.message)


def _words(resource: Resource, namespace: str | None) -> str:
    return f"{resource} in {namespace}" if namespace else str(resource)


def _unreadable(resource: Resource, key: ObjectKey, error: Exception) -> None:
    log.warning("dashboard.unreadable", kind=resource.kind, key=str(key), error=type(error).__name__)


def _is_destination(key: str) -> bool:
    return key.split("/")[1:2] == [DESTINATION]


def _may_know(key: str, sight: Sight) -> bool:
    """Who could not see a thing does not hear that it is gone."""
    namespace, kind, _ = key.split("/")
    return sees(sight, kind, namespace)
