"""Excludes tag content that a gateway gets elsewhere, which only the running gateway knows.

This module computes two exclusions for the file mapping. MQTT Engine fills its tag providers
itself, so nothing of them is synced. With `leaf-only` inheritance, a gateway gets no tag type
that a parent provider already has. Pure: the caller gets the names from the gateway. If the
gateway did not answer, there are no names, and nothing is excluded.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.files import FilesIntent, InheritedTagTypes
from stoker.domain.paths import RelPath
from stoker.engine.match.globs import GlobSet
from stoker.ignition.content.modules import KnownModule, known_module

TAG_TYPES = "config/resources/core/ignition/tag-type-definition"
TYPES_PREFIX = "_types_/"
SYSTEM_PROVIDER = "System"
MAX_TAG_TYPES = 100_000

_NOT_A_LETTER = re.compile(r"[\W_]+")
_WILDCARD_CHARACTERS = re.compile(r"[*?\[\]{}\\]")


def mqtt_engine_providers(modules: Collection[str], providers: Collection[str]) -> frozenset[str]:
    """Return the tag providers that MQTT Engine fills; none without the module."""
    if not any(known_module(module) is KnownModule.MQTT_ENGINE for module in modules):
        return frozenset()
    return frozenset(name for name in providers if _fold_name(name).startswith("mqttengine"))


def without_providers(files: FilesIntent, providers: Collection[str]) -> FilesIntent:
    """Return the files without these providers: nothing of them is written or deleted.

    A mapping that is for such a provider alone is removed completely: a mapping without any
    file would look as if its source had vanished.
    """
    patterns = tuple(_provider_patterns(name) for name in sorted(providers) if _is_folder_name(name))
    if not patterns:
        return files
    every = tuple(dict.fromkeys((*files.excludes.patterns, *patterns)))
    theirs = GlobSet(patterns)
    others = tuple(one for one in files.mappings if not theirs.matches(f"{one.destination.rstrip('/')}/_"))
    return files._replace(mappings=others or files.mappings, excludes=files.excludes._replace(patterns=every))


def parent_providers(provider: str, providers: Collection[str], modules: Collection[str]) -> tuple[str, ...]:
    """Return the providers from which this one may inherit: all others in which users keep types."""
    managed = mqtt_engine_providers(modules, providers)
    return tuple(sorted(name for name in providers if name not in (provider, SYSTEM_PROVIDER, *managed)))


def without_inherited_types(files: FilesIntent, provider: str, inherited: Collection[str]) -> FilesIntent:
    """Return the files without the provider's tag types that a parent has, named by their paths there."""
    names = frozenset(sorted(name.removeprefix(TYPES_PREFIX) for name in inherited)[:MAX_TAG_TYPES])
    if not names:
        return files
    types = InheritedTagTypes(f"{TAG_TYPES}/{provider}", names)
    return files._replace(transforms=files.transforms._replace(inherited_types=types))


def _provider_patterns(provider: str) -> str:
    """Return the glob for types, tags and the provider itself, in any collection."""
    literal = _WILDCARD_CHARACTERS.sub(r"\\\g<0>", provider)
    return f"**/tag-*/{literal}/"


def _is_folder_name(name: str) -> bool:
    try:
        return "/" not in RelPath(name) and bool(name)
    except InvalidValue:
        return False


def _fold_name(name: str) -> str:
    return _NOT_A_LETTER.sub("", name).lower()
