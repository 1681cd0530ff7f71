"""Differences between two states of a resource that mean nothing.

A gateway writes who touched a resource last into its `resource.json`, in its own key
order, and draws a `thumbnail.png` whenever somebody opens a view. Neither is a change
of the resource: it is not written to a gateway, not told as drift and not committed
back. As soon as any other file of the resource differs all of it is a change, and the
thumbnail rides with its view. What cannot be read is never taken for noise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from stoker.domain.paths import RelPath
from stoker.ignition.content.resource_json import MANIFEST, THUMBNAIL, UNARY_MANIFEST, is_equivalent

_MANIFESTS = frozenset({MANIFEST, UNARY_MANIFEST})


class ResourceNoise:
    """Which changed files might mean nothing, and whether one does."""

    def doubtful(self, paths: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        """By folder, if nothing else changed in it: the changed paths that might mean nothing."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        real: set[str] = set()
        for path in paths:
            folder, _, name = path.rpartition("/")
            if name in _MANIFESTS or name == THUMBNAIL:
                found[folder].append(path)
            else:
                # What lies deeper may belong to the resource as well.
                real.update((folder, *RelPath.known(path).ancestors()))
        return {folder: tuple(sorted(some)) for folder, some in found.items() if folder not in real}

    def means_nothing(self, name: str, before: bytes | None, after: bytes | None) -> bool:
        """Of one file of such a folder, by its name there; None is a file that is not there."""
        if name == THUMBNAIL:
            return True
        return (
            name in _MANIFESTS and before is not None and after is not None and is_equivalent(before, after)
        )
