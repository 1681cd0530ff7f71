"""What a gateway says that it is and has: version, projects, tag providers, tag types, modules.

Reads the answers of the API of 8.3 and those of the older papers. Pure: `gateway`
asks. A module that is neither healthy nor quarantined is not mentioned by either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from stoker.ignition.client.parse import (
    MOST_ITEMS,
    JsonItem,
    as_name,
    items_in,
    name_in,
    names_in,
    objects_in,
    text_in,
)

FIRST_VERSION = (8, 3)
TYPES_FOLDER = "_types_"
LONGEST_PATH = 1024
_VERSION = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")
_SICK = frozenset({"quarantined", "faulted", "error", "errored", "failed"})


@dataclass(frozen=True, slots=True)
class GatewayInfo:
    """What the gateway says of itself to whoever may ask."""

    name: str
    version: str
    role: str = ""
    """`Master`, `Backup` or `Independent`, as it says."""
    deployment_mode: str = ""


class ModuleHealth(NamedTuple):
    """Which modules run, and which the gateway has put aside, with its reason where it gives one."""

    healthy: frozenset[str]
    quarantined: Mapping[str, str]


def older_than_the_api(version: str) -> bool:
    """False for what is no version: then the paths that it offers decide."""
    match = _VERSION.match(version)
    return match is not None and (int(match[1]), int(match[2])) < FIRST_VERSION


def info_in(said: object) -> GatewayInfo | None:
    """Nothing if there is no version, without which it is no gateway's answer."""
    if not isinstance(said, dict) or not (version := text_in(said, "ignitionVersion")):
        return None
    return GatewayInfo(
        text_in(said, "name"), version, text_in(said, "redundancyRole"), text_in(said, "deploymentMode")
    )


def listed_names(said: object) -> frozenset[str] | None:
    """The names of projects or tag providers."""
    items = _named(said)
    return None if items is None else names_in(items, "name")


def managed_in(said: object) -> frozenset[str] | None:
    """The names of those tag providers that are a module's own."""
    items = _named(said)
    return None if items is None else names_in([one for one in objects_in(items) if _managed(one)], "name")


def _named(said: object) -> list[object] | None:
    return items_in(said, "projects", "providers", "tagProviders", "names")


def _managed(provider: JsonItem) -> bool:
    config = provider.get("config")
    profile = config.get("profile") if isinstance(config, dict) else None
    kind = text_in(profile, "type") if isinstance(profile, dict) else ""
    return provider.get("managed") is True or kind.upper() == "MANAGED"


def module_ids(said: object) -> frozenset[str] | None:
    items = items_in(said, "modules")
    return None if items is None else names_in(items, "id", "moduleId", "name")


def quarantined_in(said: object) -> dict[str, str] | None:
    items = items_in(said, "modules")
    if items is None:
        return None
    return {
        **{name: "" for one in items if (name := as_name(one))},
        **dict(map(_put_aside, objects_in(items))),
    }


def modules_of_both_kinds(said: object) -> ModuleHealth | None:
    """One list of all modules, each with a state, as the papers have it."""
    items = items_in(said, "modules")
    if items is None:
        return None
    sick = [item for item in objects_in(items) if text_in(item, "state", "status", "health").lower() in _SICK]
    put_aside = dict(map(_put_aside, sick))
    return ModuleHealth(names_in(items, "id", "moduleId", "name") - put_aside.keys(), put_aside)


def restart_tasks_in(said: object) -> tuple[str, ...] | None:
    """What waits for a restart, in the gateway's words."""
    items = items_in(said, "pending", "tasks")
    if items is None:
        return None
    texts = (
        as_name(one) if isinstance(one, str) else text_in(one, "name", "description", "id")
        for one in items
        if isinstance(one, str | dict)
    )
    return tuple(text for text in texts if text)


def types_in(said: object) -> frozenset[str] | None:
    """The tag type definitions of an export, by their path below the provider's folder of types."""
    if not isinstance(said, dict):
        return None
    return frozenset(islice(_types(said), MOST_ITEMS))


def _types(export: JsonItem) -> Iterator[str]:
    """Without recursion and to an end, however deep and wide it is."""
    waiting: list[tuple[str, JsonItem]] = [("", export)]
    for _ in range(MOST_ITEMS):
        if not waiting:
            return
        above, folder = waiting.pop()
        for item in objects_in(items_in(folder.get("tags")) or []):
            name = name_in(item, "name")
            path = f"{above}{name}"
            if not name or len(path) > LONGEST_PATH:
                continue
            if text_in(item, "tagType") == "UdtType":
                yield path
            elif name == TYPES_FOLDER:
                waiting.append(("", item))
            else:
                waiting.append((f"{path}/", item))


def _put_aside(item: JsonItem) -> tuple[str, str]:
    return name_in(item, "id", "moduleId", "name") or "one without a name", text_in(
        item, "reason", "message", "faultReason", "error"
    )
