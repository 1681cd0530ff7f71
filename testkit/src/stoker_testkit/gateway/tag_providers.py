"""Tag providers and tag types of a test gateway, as a scan of its configuration finds them.

A provider is a resource `ignition/tag-provider/NAME` of any collection; its types are
the `udts.json` below `ignition/tag-type-definition/NAME`. A later collection wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stoker_testkit.gateway.atomic_write import read_file
from stoker_testkit.gateway.resource_reader import parsed

PROVIDER = "ignition/tag-provider/"
TYPES = "ignition/tag-type-definition/"
TYPES_FOLDER = "_types_"


@dataclass(frozen=True, slots=True)
class Provider:
    """A tag provider with its settings; `parent` is the one that it inherits from."""

    name: str
    collection: str
    settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def parent(self) -> str:
        found = self.settings.get("parent")
        return found if isinstance(found, str) else ""


@dataclass(frozen=True, slots=True)
class Tags:
    """All providers, and of each the definitions by their folder."""

    providers: Mapping[str, Provider] = field(default_factory=dict)
    types: Mapping[str, Mapping[str, list[dict[str, object]]]] = field(default_factory=dict)

    def export(self, provider: str) -> dict[str, object]:
        """The folder of types of a provider in the form of a tag export."""
        root: dict[str, object] = {"name": TYPES_FOLDER, "tagType": "Folder", "tags": []}
        for folder, definitions in sorted(self.types.get(provider, {}).items()):
            _tags(_descend(root, folder)).extend(definitions)
        return root


def read_tags(data_dir: Path, resources: Iterable[str]) -> Tags:
    """`resources` are the paths that the scan has loaded, each with its collection first."""
    providers: dict[str, Provider] = {}
    types: dict[str, dict[str, list[dict[str, object]]]] = {}
    for path in sorted(resources):
        collection, _, below = path.partition("/")
        folder = data_dir / "config" / "resources" / path
        if below.startswith(PROVIDER):
            name = below.removeprefix(PROVIDER)
            parsed_json = parsed(read_file(folder / "config.json"))
            providers[name] = Provider(name, collection, parsed_json if isinstance(parsed_json, dict) else {})
        elif below.startswith(TYPES):
            name, _, where = below.removeprefix(TYPES).partition("/")
            place, found = _definitions(where, parsed(read_file(folder / "udts.json")))
            types.setdefault(name, {}).setdefault(place, []).extend(found)
    return Tags(providers, types)


def _definitions(where: str, parsed_json: object) -> tuple[str, list[dict[str, object]]]:
    """A list is in the folder of that name; a single definition may be a folder of its own."""
    if isinstance(parsed_json, list):
        return where, [one for one in parsed_json if isinstance(one, dict)]
    if not isinstance(parsed_json, dict):
        return where, []
    above, _, last = where.rpartition("/")
    return (above if last == parsed_json.get("name") else where), [parsed_json]


def _descend(folder: dict[str, object], path: str) -> dict[str, object]:
    for name in filter(None, path.split("/")):
        inside = next((one for one in _tags(folder) if one.get("name") == name), None)
        if inside is None:
            inside = {"name": name, "tagType": "Folder", "tags": []}
            _tags(folder).append(inside)
        folder = inside
    return folder


def _tags(folder: dict[str, object]) -> list[dict[str, object]]:
    found = folder.setdefault("tags", [])
    assert isinstance(found, list)  # noqa: S101 - made here
    return found
