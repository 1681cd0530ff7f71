"""The view of a cluster's resources and destinations, kept current by watches.

Every replica has its own, leader or not. In a controller's process it reads the controller's caches as far
as they hold every object; it lists and watches all other kinds (`stoker.dashboard.cluster.watches`). A kind
that is not installed, or that the service account may not read, is not shown, and the log reports that once.
A kind that was shown and cannot be read for a minute is hidden: pages show the rest and name what is missing,
and if nothing can be read there is no view at all. Data that a visitor may not see never leaves this module;
`stoker.dashboard.cluster.authenticator` decides what a visitor may see.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection
from functools import partial
from typing import Any, TypeAlias

import msgspec

from stoker.dashboard.cluster.destinations import (
    CachedDestination,
    CachedRepoConfig,
    JoinedDestination,
    RepoConfigKey,
    decode_config,
    decode_destination,
    destination_view,
)
from stoker.dashboard.cluster.emergency_stop import NOT_STOPPED, EmergencyStopState, decode_emergency_stop
from stoker.dashboard.cluster.history import unpack_history
from stoker.dashboard.cluster.kinds import (
    CLUSTER_RULE,
    CONFIG,
    DESTINATION,
    PAUSE_MAP,
    RESOURCES_WITH_RULES,
    RULE,
    SYNCED,
)
from stoker.dashboard.cluster.permissions import allowed_actions, can_see
from stoker.dashboard.cluster.resources import CachedSyncResource, decode_resource, resource_id
from stoker.dashboard.cluster.rules import (
    CachedWatchRule,
    DestinationKey,
    RulesByDestination,
    decode_rule,
    rule_problems,
)
from stoker.dashboard.cluster.shared_cache import SharedInformers
from stoker.dashboard.cluster.staleness import StaleKinds, find_lost_watches
from stoker.dashboard.cluster.watches import DashboardWatches
from stoker.dashboard.interfaces import CLUSTER, GatewayKey, VisibleScope
from stoker.dashboard.versioned_store import ChangeLog
from stoker.dashboard.view_models import (
    ChangesView,
    DashboardView,
    DestinationView,
    EmergencyStopView,
    GatewayHistoryView,
    ResourceView,
)
from stoker.domain.clock import Clock, SystemClock, rfc3339
from stoker.kube.client.client import KubeClient
from stoker.kube.client.resources import CONFIG_MAPS
from stoker.kube.watch.reflector import Reflector
from stoker.kube.watch.store import ObjectChange, ObjectKey

ClusterViewItem: TypeAlias = CachedSyncResource | JoinedDestination | EmergencyStopState

POLL_SECONDS = 5.0
_STOP = "stop"


class ClusterViewSource:
    """The view of a cluster, or of some of its namespaces."""

    mode = CLUSTER

    def __init__(
        self,
        client: KubeClient,
        home: str,
        namespaces: Collection[str] = (),
        clock: Clock | None = None,
        *,
        rules: bool = False,
        shared: SharedInformers | None = None,
    ) -> None:
        """With `rules`, also watch the rules of destinations, which a reverser's account may read.

        A kind that has an informer in `shared` is not watched again.
        """
        self._clock = clock or SystemClock()
        self._shown: ChangeLog[ClusterViewItem] = ChangeLog()
        self._shown.set(_STOP, NOT_STOPPED)
        self._configs: dict[RepoConfigKey, CachedRepoConfig] = {}
        self._uses: defaultdict[RepoConfigKey, set[str]] = defaultdict(set)
        """The ids of the destinations of each GitRepoConfig."""
        self._rules = RulesByDestination()
        self._blind = StaleKinds()
        self._watches = DashboardWatches(client, namespaces, self._clock, shared or {})
        for kind in SYNCED:
            resource, update = RESOURCES_WITH_RULES[kind], partial(self._resource, kind)
            self._watches.add_shared(kind, resource, partial(decode_resource, kind), update)
        self._watches.add(RESOURCES_WITH_RULES[DESTINATION], decode_destination, self._destination)
        self._watches.add(RESOURCES_WITH_RULES[CONFIG], decode_config, self._config)
        if rules:
            self._watches.add(RESOURCES_WITH_RULES[RULE], partial(decode_rule, RULE), self._rule)
            self._watches.add(
                RESOURCES_WITH_RULES[CLUSTER_RULE], partial(decode_rule, CLUSTER_RULE), self._rule, (None,)
            )
        only = f"metadata.name={PAUSE_MAP}"
        self._watches.add_shared(
            PAUSE_MAP, CONFIG_MAPS, decode_emergency_stop, self._stop, (home,), fields=only
        )

    async def run(self) -> None:
        """Keep the view current until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watches.run())
            group.create_task(self._watch_over())

    async def looked(self) -> None:
        """Wait until each kind was listed once or its list failed; before that the view is mostly empty."""
        await self._watches.looked()

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        return self._watches.reflectors

    def places(self, kind: str) -> set[str]:
        """Return the namespaces that have, or may have, an object of this kind."""
        return self._watches.places(RESOURCES_WITH_RULES[kind])

    # ViewSource: what the server reads.

    def version(self) -> int:
        return self._shown.version

    async def changed(self, seen: int) -> int:
        return await self._shown.changed(seen)

    def picture(self, sight: VisibleScope) -> DashboardView:
        self._blind.check()
        everything = [self._told(value, sight) for _, value in self._shown]
        return DashboardView(
            version=self._shown.version,
            mode=self.mode,
            at=rfc3339(self._clock.now()),
            stop=next((one for one in everything if isinstance(one, EmergencyStopView)), EmergencyStopView()),
            resources=tuple(one for one in everything if isinstance(one, ResourceView)),
            destinations=tuple(one for one in everything if isinstance(one, DestinationView)),
            unseen=tuple(self._blind.told(sight)),
        )

    def changes(self, seen: int, sight: VisibleScope) -> ChangesView | None:
        self._blind.check()
        since = self._shown.since(seen)
        if since is None:
            return None
        values = (self._shown.get(key) for key in since.changed)
        told = [self._told(value, sight) for value in values if value is not None]
        gone = [key for key in since.gone if _can_know_of(key, sight)]
        return ChangesView(
            version=self._shown.version,
            resources=tuple(one for one in told if isinstance(one, ResourceView)),
            gone=tuple(key for key in gone if not _is_destination(key)),
            destinations=tuple(one for one in told if isinstance(one, DestinationView)),
            gone_destinations=tuple(key for key in gone if _is_destination(key)),
            stop=next((one for one in told if isinstance(one, EmergencyStopView)), None),
        )

    def gateway(self, key: GatewayKey, sight: VisibleScope) -> GatewayHistoryView | None:
        self._blind.check()
        found = self._shown.get(resource_id(key.kind, key.namespace, key.name))
        if not isinstance(found, CachedSyncResource) or not self._sees(sight, key.kind, key.namespace):
            return None
        for one in found.now.gateways:
            if one.name == key.gateway:
                past = unpack_history(key.gateway, found.past)
                return GatewayHistoryView(gateway=one, history=past.history, snapshots=past.snapshots)
        return None

    def _told(
        self, value: ClusterViewItem, sight: VisibleScope
    ) -> ResourceView | DestinationView | EmergencyStopView | None:
        """Return the view of an item for this visitor; None if they may not see it."""
        if isinstance(value, EmergencyStopState):
            return EmergencyStopView(active=value.active, since=value.since, may=sight.may_stop)
        if isinstance(value, CachedSyncResource):
            now = value.now
            if not self._sees(sight, now.kind, now.namespace):
                return None
            return msgspec.structs.replace(now, may=allowed_actions(sight, now.kind, now.namespace))
        return self._told_of(value, sight)

    def _told_of(self, shown: JoinedDestination, sight: VisibleScope) -> DestinationView | None:
        destination, config, rules = shown
        if not self._sees(sight, DESTINATION, destination.now.namespace):
            return None
        now = destination_view(
            destination, config, may_see=self._sees(sight, CONFIG, destination.config.namespace)
        )
        known = [one for one in rules if not self._blind.hides(one.kind, one.namespace)]
        return msgspec.structs.replace(
            now,
            rules=len(rules) if self._knows_rules else None,
            troubles=rule_problems(known, lambda one: can_see(sight, one.kind, one.namespace)),
            may=allowed_actions(sight, DESTINATION, now.namespace),
        )

    @property
    def _knows_rules(self) -> bool:
        """Whether all rules can be read; otherwise a count of 0 rules would be a false claim."""
        kinds = (RULE, CLUSTER_RULE)
        found = [one.health for one in self.reflectors if one.resource.kind in kinds]
        return bool(found) and all(one.synced and one.failing_since is None for one in found)

    def _sees(self, sight: VisibleScope, kind: str, namespace: str) -> bool:
        """Return whether the visitor may see it and it is not stale."""
        return can_see(sight, kind, namespace) and not self._blind.hides(kind, namespace)

    # Watch handlers: apply a changed object to the view.

    def _resource(self, kind: str, key: ObjectKey, resource: CachedSyncResource | None) -> None:
        self._put(resource_id(kind, *key), resource)

    def _destination(self, change: ObjectChange[CachedDestination]) -> None:
        old, new, id_ = change.old, change.new, resource_id(DESTINATION, *change.key)
        if old is not None:
            self._unused(old.config, id_)
        if new is not None:
            self._uses[new.config].add(id_)
        rules = self._rules.of(DestinationKey(*change.key))
        self._put(id_, None if new is None else JoinedDestination(new, self._configs.get(new.config), rules))

    def _unused(self, config: RepoConfigKey, id_: str) -> None:
        self._uses[config].discard(id_)
        if not self._uses[config]:
            del self._uses[config]

    def _config(self, change: ObjectChange[CachedRepoConfig]) -> None:
        key = RepoConfigKey(*change.key)
        if change.new is None:
            self._configs.pop(key, None)
        else:
            self._configs[key] = change.new
        for id_ in sorted(self._uses.get(key, ())):
            shown = self._shown.get(id_)
            if isinstance(shown, JoinedDestination):
                self._put(id_, shown._replace(config=change.new))

    def _rule(self, change: ObjectChange[CachedWatchRule]) -> None:
        for key in self._rules.replace(change.old, change.new):
            id_ = resource_id(DESTINATION, *key)
            shown = self._shown.get(id_)
            if isinstance(shown, JoinedDestination):
                self._put(id_, shown._replace(rules=self._rules.of(key)))

    def _stop(self, key: ObjectKey, state: EmergencyStopState | None) -> None:
        self._put(_STOP, state or NOT_STOPPED)

    def _put(self, key: str, value: ClusterViewItem | None) -> None:
        if value is None:
            self._shown.remove(key)
        else:
            self._shown.set(key, value)

    async def _watch_over(self) -> None:
        """Send every page a new view when a kind becomes unreadable or readable again."""
        while True:
            blind = find_lost_watches(self.reflectors, self._clock.monotonic())
            if blind != self._blind:
                self._blind = blind
                self._shown.begin_anew()
                blind.log()
            await self._clock.sleep(POLL_SECONDS)


def _is_destination(key: str) -> bool:
    return key.split("/")[1:2] == [DESTINATION]


def _can_know_of(key: str, sight: VisibleScope) -> bool:
    """Return whether the visitor may learn of a removal: only if they could see the object."""
    namespace, kind, _ = key.split("/")
    return can_see(sight, kind, namespace)
