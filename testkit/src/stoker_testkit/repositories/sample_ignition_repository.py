"""A small but plausible Ignition repository, for the demo and for tests.

Two gateways of a bottling plant, `filler` and `packer`, each with a project and
its core configuration; scripts and UDTs that both share; an overlay for
production.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from stoker_testkit.gateway.resource_signature import signed

GATEWAYS = {"filler": "Filler overview", "packer": "Packer overview"}
VIEWS = "com.inductiveautomation.perspective/views"
SYSTEM = "ignition/system-properties"
OVERLAY = "production"
SAVED = datetime(2026, 1, 1, tzinfo=UTC)
"""When everything in it was last saved in a Designer."""


def resource(files: Mapping[str, str], *, version: int = 1) -> dict[str, str]:
    """The files of one resource, and the `resource.json` that names them, signed as a Designer does."""
    manifest = {"scope": "A", "version": version, "restricted": False, "overridable": True}
    contents = {name: text.encode() for name, text in files.items()}
    named = signed({**manifest, "files": sorted(files)}, contents, actor="admin", at=SAVED)
    return {**files, "resource.json": _json(named)}


def view(title: str) -> dict[str, str]:
    """A Perspective view."""
    root = {"type": "ia.container.flex", "meta": {"name": "root"}}
    return resource({"view.json": _json({"root": root, "title": title})})


def mappings(gateway: str) -> tuple[tuple[str, str], ...]:
    """The mappings from the repository to a gateway; a later one wins, file by file."""
    service, core = f"services/{gateway}", "config/resources/core"
    return (
        (f"{service}/projects", "projects"),
        (f"{service}/{core}", core),
        (f"{service}/config/resources/{OVERLAY}", core),
        ("shared/scripts", f"projects/{gateway}/ignition/script-python"),
        ("shared/udts", f"{core}/ignition/tag-type-definition/default"),
    )


def plant() -> dict[str, str]:
    """Every file of the repository by its path."""
    files = {"README.md": "# Bottling plant\n\nConfiguration of the gateways of line 1.\n"}
    rate = "def per_hour(count, seconds):\n\treturn count * 3600 / seconds\n"
    _put(files, "shared/scripts/line", resource({"code.py": rate}))
    motor = {"name": "Motor", "tagType": "UdtType", "tags": [{"name": "Speed", "dataType": "Float4"}]}
    _put(files, "shared/udts/Motor", resource({"udts.json": _json(motor)}))
    for name, title in GATEWAYS.items():
        project, resources = f"services/{name}/projects/{name}", f"services/{name}/config/resources"
        _put(files, project, {"project.json": _json({"title": name.title(), "enabled": True})})
        _put(files, f"{project}/{VIEWS}/Overview", view(title))
        _put(files, f"{resources}/core", {"config-mode.json": _json({"title": "core"})})
        _put(files, f"{resources}/core/{SYSTEM}", resource(_system(name, "local")))
        _put(files, f"{resources}/{OVERLAY}/{SYSTEM}", resource(_system(name, "plant")))
    return files


def _system(name: str, historian: str) -> dict[str, str]:
    return {"config.json": _json({"systemName": name, "historian": historian})}


def _put(files: dict[str, str], folder: str, new: Mapping[str, str]) -> None:
    files |= {f"{folder}/{name}": text for name, text in new.items()}


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
