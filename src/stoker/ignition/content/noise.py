"""Differences between two states of a resource that mean nothing.

A gateway writes the last author of a resource into its `resource.json`, in its own key
order, and draws a `thumbnail.png` whenever a user opens a view. Neither is a change of the
resource: it is not written to a gateway, not reported as drift and not committed to git. As
soon as any other file of the resource differs, all of it is a change, and the thumbnail is
committed with its view. Content that cannot be read is never treated as noise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from stoker.domain.paths import RelPath
from stoker.ignition.content.resource_json import MANIFEST, THUMBNAIL, UNARY_MANIFEST, is_equivalent

_MANIFESTS = frozenset({MANIFEST, UNARY_MANIFEST})


class ResourceNoise:
    """Finds changed files that may be noise, and decides whether a file is."""

    def doubtful(self, paths: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        """Return, by folder in which nothing else changed, the changed paths that may be noise."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        real: set[str] = set()
        for path in paths:
            folder, _, name = path.rpartition("/")
            if name in _MANIFESTS or name == THUMBNAIL:
                found[folder].append(path)
            else:
                # A deeper path may belong to the resource of a folder above.
                real.update((folder, *RelPath.known(path).ancestors()))
        return {folder: tuple(sorted(some)) for folder, some in found.items() if folder not in real}

    def means_nothing(self, name: str, before: bytes | None, after: bytes | None) -> bool:
        """Return whether a change of a file in such a folder is noise; None is a missing file."""
        if name == THUMBNAIL:
            return True
        return (
            name in _MANIFESTS and before is not None and after is not None and is_equivalent(before, after)
        )
