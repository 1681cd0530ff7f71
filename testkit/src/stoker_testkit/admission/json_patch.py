"""A JSON patch carried out, as far as injection uses it: `add` to maps and lists."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any


def patched(document: Mapping[str, Any], patch: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """A copy of the document with the patch applied; any other operation than `add` is an error."""
    result = copy.deepcopy(dict(document))
    for operation in patch:
        if operation["op"] != "add":
            raise ValueError(f"{operation['op']} is not expected here")
        *above, last = [
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
        ]
        place: Any = result
        for part in above:
            place = place[int(part)] if isinstance(place, list) else place[part]
        value = copy.deepcopy(operation["value"])
        if isinstance(place, list):
            place.append(value) if last == "-" else place.insert(int(last), value)
        else:
            place[last] = value
    return result
