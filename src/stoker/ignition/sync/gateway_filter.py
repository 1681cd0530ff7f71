"""Asks a gateway for its modules, tag providers and tag types, and filters the files accordingly.

Runs before a sync that may call the gateway, not on each sync but every few minutes and
after an observed start. The result is part of the settings of the files, so it is stored on the
data volume and applies until the next result: a gateway that is down, starting or refuses the
request changes nothing, and a new process continues with the stored result. A failure here
never stops files from being written.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

from stoker.domain.clock import Clock
from stoker.domain.errors import Stalled, StokerError
from stoker.domain.intent.files import FilesIntent
from stoker.domain.intent.policies import IgnitionPolicy, TagInheritance
from stoker.ignition.client.gateway import GatewayClient, error_note
from stoker.ignition.client.responses import PathNotOffered
from stoker.ignition.content.modules import known_modules
from stoker.ignition.content.tags import SYSTEM_PROVIDER, mqtt_engine_providers, parent_providers
from stoker.ignition.sync.readiness import GatewayReadiness
from stoker.ignition.sync.state_files import MAX_FILE_BYTES, StateFiles
from stoker.ignition.sync.stored_inventory import STATE_FILE, StoredInventory, may_hold_tags
from stoker.telemetry.logs import get_logger

REFRESH_SECONDS = 300.0
MAX_PARENTS = 64

log = get_logger(__name__)


class GatewaySurvey:
    """Queries one gateway's inventory periodically."""

    def __init__(
        self,
        gateway: GatewayClient,
        readiness: GatewayReadiness,
        marks: StateFiles,
        policy: IgnitionPolicy,
        clock: Clock,
    ) -> None:
        self.warnings: tuple[str, ...] = ()
        self._gateway = gateway
        self._readiness = readiness
        self._marks = marks
        self._policy = policy
        self._clock = clock
        self._told: StoredInventory | None = None
        self._remembered = StoredInventory()
        self._trouble = ""
        self._next = -math.inf
        self._start_asked: float | None = None

    async def fitting(self, files: FilesIntent, *, ask: bool, remember: bool) -> FilesIntent:
        """Return the files for this gateway, filtered by its current or last inventory."""
        if not may_hold_tags(files):
            return files
        if self._told is None:
            self._told = self._remembered = StoredInventory.read(self._marks)
        told = await self._asked(self._told) if ask and self._is_due else self._told
        if told != self._told:
            log.info("gateway.told", modules=sorted(told.modules), managed_providers=sorted(told.managed))
            self._told = told
        if remember and told != self._remembered:
            self._remember(told)
        self.warnings = tuple(self._worth_saying(told, ask=ask))
        return told.fitted(files, self._policy)

    def _remember(self, told: StoredInventory) -> None:
        with suppress(StokerError, OSError):  # the sync reports an unusable volume; the next call tries again
            self._marks.write(STATE_FILE, told.content)
            self._remembered = told

    @property
    def _is_due(self) -> bool:
        if self._readiness.grace_left:
            return False
        return self._clock.monotonic() >= self._next or self._readiness.came_up != self._start_asked

    async def _asked(self, before: StoredInventory) -> StoredInventory:
        """Return the current inventory as far as the gateway provides it, else the previous values."""
        self._next = self._clock.monotonic() + REFRESH_SECONDS
        self._trouble = ""
        told = before
        try:
            await self._readiness.check()
            if self._readiness.grace_left:
                return before  # it has only just started: ask when the grace period is over
            told = self._bounded(await self._modules_and_providers(before), before)
        except StokerError as error:
            self._readiness.saw(error)
            if isinstance(error, Stalled):  # other steps report transient errors
                self._trouble = f"which tag providers modules fill is not known: {error_note(error)}"
        self._start_asked = self._readiness.came_up
        return told

    async def _modules_and_providers(self, before: StoredInventory) -> StoredInventory:
        health = await self._gateway.modules()
        modules = before.modules
        if health is not None:  # a quarantined module still owns its tags
            modules = frozenset(map(str, known_modules({*health.healthy, *health.quarantined})))
        try:
            providers = await self._gateway.tag_providers()
            managed = await self._gateway.managed_providers() | mqtt_engine_providers(modules, providers)
        except PathNotOffered:
            return replace(before, modules=modules)
        told = replace(before, modules=modules, managed=managed - {SYSTEM_PROVIDER})
        return await self._with_types(told, providers - told.managed)

    async def _with_types(self, told: StoredInventory, providers: Collection[str]) -> StoredInventory:
        """Add the types of the parents if the policy is `leaf-only`."""
        if self._policy.tag_inheritance is not TagInheritance.LEAF_ONLY:
            return told
        own = self._policy.tag_provider
        found: set[str] = set()
        try:
            for parent in parent_providers(own, providers, told.modules)[:MAX_PARENTS]:
                types = await self._gateway.types_of(parent)
                if types is None:
                    self._trouble = f"this gateway does not say which tag types {parent} has"
                    return told
                found |= types
        except StokerError as error:
            self._trouble = f"the tag types of {parent} were not told: {error_note(error)}"
            return told
        return replace(told, provider=own, inherited=frozenset(found))

    def _bounded(self, told: StoredInventory, before: StoredInventory) -> StoredInventory:
        """Ignore an inventory that cannot be stored, or the next process would undo its effect."""
        if len(told.content) <= MAX_FILE_BYTES:
            return told
        self._trouble = "the gateway tells more names of tag providers and types than can be remembered"
        return before

    def _worth_saying(self, told: StoredInventory, *, ask: bool) -> list[str]:
        said = [self._trouble] if self._trouble else []
        if told.managed:
            said.append(f"filled by modules and not synced: tag provider {', '.join(sorted(told.managed))}")
        wants_leaves = self._policy.tag_inheritance is TagInheritance.LEAF_ONLY
        if ask and wants_leaves and told.provider != self._policy.tag_provider:
            said.append(
                "leaf-only waits for the gateway to tell its types: until then all of them are synced"
            )
        return said
