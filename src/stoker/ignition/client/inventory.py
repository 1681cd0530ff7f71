"""Version, projects, tag providers, tag types and modules of a gateway.

Parses the responses of the 8.3 API and of the documented `/data/api/v2`. Pure: `gateway`
sends the requests. Neither API lists a module that is neither healthy nor quarantined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from stoker.ignition.client.parse import (
    MAX_ITEMS,
    JsonItem,
    as_name,
    item_name,
    item_names,
    item_text,
    only_objects,
    parse_items,
)

FIRST_VERSION = (8, 3)
TYPES_FOLDER = "_types_"
MAX_PATH_LENGTH = 1024
_VERSION = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")
_FAULTED_STATES = frozenset({"quarantined", "faulted", "error", "errored", "failed"})


@dataclass(frozen=True, slots=True)
class GatewayInfo:
    """The gateway's description of itself, which needs Gateway Read."""

    name: str
    version: str
    role: str = ""
    """`Master`, `Backup` or `Independent`, as the gateway reports it."""
    deployment_mode: str = ""


class ModuleHealth(NamedTuple):
    """The running modules, and the quarantined modules with the gateway's reason if it gives one."""

    healthy: frozenset[str]
    quarantined: Mapping[str, str]


def is_older_than_api(version: str) -> bool:
    """Return whether it is older than 8.3; False for an unparsable version, then the offered paths decide."""
    match = _VERSION.match(version)
    return match is not None and (int(match[1]), int(match[2])) < FIRST_VERSION


def parse_gateway_info(said: object) -> GatewayInfo | None:
    """Parse the gateway's description; None without a version, because then it is no gateway's response."""
    if not isinstance(said, dict) or not (version := item_text(said, "ignitionVersion")):
        return None
    return GatewayInfo(
        item_text(said, "name"), version, item_text(said, "redundancyRole"), item_text(said, "deploymentMode")
    )


def parse_names(said: object) -> frozenset[str] | None:
    """Return the names of projects or tag providers."""
    items = _named_items(said)
    return None if items is None else item_names(items, "name")


def parse_managed_providers(said: object) -> frozenset[str] | None:
    """Return the names of the tag providers that a module fills."""
    items = _named_items(said)
    return (
        None
        if items is None
        else item_names([one for one in only_objects(items) if _is_managed(one)], "name")
    )


def _named_items(said: object) -> list[object] | None:
    return parse_items(said, "projects", "providers", "tagProviders", "names")


def _is_managed(provider: JsonItem) -> bool:
    config = provider.get("config")
    profile = config.get("profile") if isinstance(config, dict) else None
    kind = item_text(profile, "type") if isinstance(profile, dict) else ""
    return provider.get("managed") is True or kind.upper() == "MANAGED"


def module_ids(said: object) -> frozenset[str] | None:
    items = parse_items(said, "modules")
    return None if items is None else item_names(items, "id", "moduleId", "name")


def parse_quarantined(said: object) -> dict[str, str] | None:
    items = parse_items(said, "modules")
    if items is None:
        return None
    return {
        **{name: "" for one in items if (name := as_name(one))},
        **dict(map(_quarantined_module, only_objects(items))),
    }


def parse_module_list(said: object) -> ModuleHealth | None:
    """Parse a single list of all modules, each with a state, as in the documented `/data/api/v2`."""
    items = parse_items(said, "modules")
    if items is None:
        return None
    sick = [
        item
        for item in only_objects(items)
        if item_text(item, "state", "status", "health").lower() in _FAULTED_STATES
    ]
    put_aside = dict(map(_quarantined_module, sick))
    return ModuleHealth(item_names(items, "id", "moduleId", "name") - put_aside.keys(), put_aside)


def parse_restart_tasks(said: object) -> tuple[str, ...] | None:
    """Return the tasks that wait for a restart, in the gateway's own words."""
    items = parse_items(said, "pending", "tasks")
    if items is None:
        return None
    texts = (
        as_name(one) if isinstance(one, str) else item_text(one, "name", "description", "id")
        for one in items
        if isinstance(one, str | dict)
    )
    return tuple(text for text in texts if text)


def parse_tag_types(said: object) -> frozenset[str] | None:
    """Return the tag type definitions of an export, by their path below the provider's folder of types."""
    if not isinstance(said, dict):
        return None
    return frozenset(islice(_tag_type_paths(said), MAX_ITEMS))


def _tag_type_paths(export: JsonItem) -> Iterator[str]:
    """Walk the export without recursion and with a limit, so that depth and width cannot exhaust memory."""
    waiting: list[tuple[str, JsonItem]] = [("", export)]
    for _ in range(MAX_ITEMS):
        if not waiting:
            return
        above, folder = waiting.pop()
        for item in only_objects(parse_items(folder.get("tags")) or []):
            name = item_name(item, "name")
            path = f"{above}{name}"
            if not name or len(path) > MAX_PATH_LENGTH:
                continue
            if item_text(item, "tagType") == "UdtType":
                yield path
            elif name == TYPES_FOLDER:
                waiting.append(("", item))
            else:
                waiting.append((f"{path}/", item))


def _quarantined_module(item: JsonItem) -> tuple[str, str]:
    return item_name(item, "id", "moduleId", "name") or "one without a name", item_text(
        item, "reason", "message", "faultReason", "error"
    )
