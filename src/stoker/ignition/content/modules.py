"""Modules of a gateway: known modules, the install order of their files, changes that need a restart.

A gateway names its modules by id (`com.cirruslink.mqtt.engine.gateway`) or by name
(`MQTT Engine`). Module files are written in this order: dependencies of others first, then
the files that the user listed, then the rest by name. A gateway loads modules only when it
starts, so any change of a module needs a restart. Pure; `stoker.ignition.content.module_file`
reads the description in a module file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from stoker.engine.plan.plan import SyncPlan
from stoker.ignition.content.projects import is_module

_NOT_A_LETTER = re.compile(r"[^a-z]+")


class KnownModule(StrEnum):
    """Modules that change how a gateway is synced, or that people ask about."""

    MQTT_ENGINE = "MQTT Engine"
    MQTT_TRANSMISSION = "MQTT Transmission"
    SEPASOFT_MES = "Sepasoft MES"


class ModuleFile(NamedTuple):
    """The description in a module's file."""

    id: str = ""
    depends_on: frozenset[str] = frozenset()


def known_module(module: str) -> KnownModule | None:
    """Return the known module of an id or a name; None for other and custom modules."""
    folded = _NOT_A_LETTER.sub("", module.lower())
    if "mqttengine" in folded:
        return KnownModule.MQTT_ENGINE
    if "mqtttransmission" in folded or folded == "transmission":
        return KnownModule.MQTT_TRANSMISSION
    return KnownModule.SEPASOFT_MES if "sepasoft" in folded else None


def known_modules(modules: Collection[str]) -> frozenset[KnownModule]:
    return frozenset(found for module in modules if (found := known_module(module)) is not None)


def modules_changed(plan: SyncPlan) -> tuple[str, ...]:
    """Return the module files that a plan adds, replaces or removes; they need a restart of the gateway."""
    changed = {*(str(write.path) for write in plan.writes), *(str(one.path) for one in plan.removals)}
    return tuple(sorted(filter(is_module, changed)))


def install_order(
    paths: Collection[str], listed: Sequence[str], described: Mapping[str, ModuleFile] | None = None
) -> tuple[str, ...]:
    """Return the files in the order in which to write them: dependencies first, then as listed, then by name.

    Files with a dependency cycle are written in listed order.
    """
    ranks, said = {name: rank for rank, name in enumerate(listed)}, described or {}
    names = sorted(
        paths,
        key=lambda path: (ranks.get(_module_file_name(path), len(ranks)), _module_file_name(path), path),
    )
    by_id = {said[path].id: path for path in reversed(names) if path in said and said[path].id}
    needs = {
        path: {by_id[one] for one in said[path].depends_on if one in by_id} if path in said else frozenset()
        for path in names
    }
    placed: dict[str, None] = {}
    begun: set[str] = set()
    waiting = names[::-1]
    while waiting:
        path = waiting[-1]
        first = [one for one in names if one in needs[path] and one not in begun]
        begun.add(path)
        if path in placed or not first:
            placed.setdefault(waiting.pop())
        else:
            waiting += first[::-1]
    return tuple(placed)


def _module_file_name(path: str) -> str:
    return path.rpartition("/")[2]
