"""A small but plausible Ignition repository, for the demo and for tests.

Two gateways of a bottling plant, `filler` and `packer`, each with a project and
its core configuration; scripts and UDTs that both share; an overlay for
production.
"""

from __future__ import annotations

import json


def view(title: str) -> dict[str, str]:
    """A Perspective view: its data, and the `resource.json` that names it."""
    return {
        "view.json": _json({"root": {"type": "ia.container.flex", "meta": {"name": "root"}}, "title": title}),
        "resource.json": _json(
            {"scope": "G", "version": 1, "restricted": False, "overridable": True, "files": ["view.json"]}
        ),
    }


def plant() -> dict[str, str]:
    """Every file of the repository by its path."""
    files = {
        "shared/scripts/line/code.py": "def per_hour(count, seconds):\n\treturn count * 3600 / seconds\n",
        "shared/udts/Motor/udts.json": _json({"name": "Motor", "tagType": "UdtType", "tags": []}),
        "README.md": "# Bottling plant\n\nConfiguration of the gateways of line 1.\n",
    }
    for name, title in (("filler", "Filler overview"), ("packer", "Packer overview")):
        root = f"services/{name}"
        views = f"{root}/projects/{name}/com.inductiveautomation.perspective/views"
        files |= {f"{views}/Overview/{file}": text for file, text in view(title).items()}
        files |= {
            f"{root}/projects/{name}/project.json": _json({"title": name.title(), "enabled": True}),
            f"{root}/config/resources/core/config-mode.json": _json({"title": "core"}),
            f"{root}/config/resources/core/system.json": _json({"systemName": name, "historian": "local"}),
            f"{root}/config/resources/production/system.json": _json(
                {"systemName": name, "historian": "plant"}
            ),
        }
    return files


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
