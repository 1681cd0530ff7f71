"""The service path check: a commit without any part of the service's layout stalls the sync.

`stoker.engine.layout.overlay` calls it for each commit that it lays out as a whole. Shared
content alone must never make a sync with a misspelt service path look complete: the gateway
would lack its own projects, and the status would read `Synced`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from stoker.domain.errors import Stalled
from stoker.domain.git_objects import CommitTree
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.domain.text import first_names
from stoker.engine.layout.desired_files import MappingRoute

_MAX_NAMED = 5


def require_service(routes: Sequence[MappingRoute], tree: CommitTree, ordered: Sequence[str]) -> None:
    """Raise `Stalled` if the commit has none of the sources that belong to the service path.

    `ordered` are the sorted files of the tree, for bisection: this also runs for commits of 100,000 files.
    """
    sources = {route.source: route.service_path for route in routes if route.service_path is not None}
    if not sources or any(_has_path(source, tree, ordered) for source in sources):
        return
    service_path = next(path for path in sources.values() if path is not None)
    raise Stalled(
        f"{_missing_source_message(service_path, list(sources), tree, ordered)}; nothing was changed. "
        "Correct the service path of the gateway (annotation service-path), or the repository",
        reason=Reason.SOURCE_EMPTY,
    )


def _missing_source_message(
    service_path: RelPath, sources: Sequence[RelPath], tree: CommitTree, ordered: Sequence[str]
) -> str:
    shown = repr(str(service_path) or ".")
    inside = _children(service_path, tree)
    if inside:
        looked_for = " or ".join(repr(str(source)) for source in sources)
        return (
            f"service path {shown} gives no file: the commit has no {looked_for}; it has "
            f"{_list_names(inside)}"
        )
    above = next(
        (folder for folder in service_path.ancestors() if _has_path(folder, tree, ordered)), RelPath("")
    )
    # Compare the first missing part of the path with the names that exist there.
    missing = service_path[len(above) :].lstrip("/").partition("/")[0]
    siblings = _children(above, tree)
    from difflib import get_close_matches  # noqa: PLC0415 - only for this error message

    near = get_close_matches(missing, siblings, n=_MAX_NAMED) or siblings
    where = repr(str(above)) if above else "the root of the repository"
    hint = f"; {where} has {_list_names(near)}" if near else ""
    return f"service path {shown} does not exist at this commit{hint}"


def _has_path(path: RelPath, tree: CommitTree, ordered: Sequence[str]) -> bool:
    """Whether the commit has the path as a file, as a folder, or as an entry that was refused."""
    at = bisect_left(ordered, f"{path}/")
    return (
        path in tree.files
        or (at < len(ordered) and ordered[at].startswith(f"{path}/"))
        or any(refusal.nearest.is_below(path) for refusal in tree.refused if refusal.nearest)
    )


def _children(folder: RelPath, tree: CommitTree) -> list[str]:
    """Return the folders directly below a folder, or its files if it has no folders."""
    head = f"{folder}/" if folder else ""
    below = [name[len(head) :] for name in tree.files if name.startswith(head)]
    folders = sorted({name.partition("/")[0] for name in below if "/" in name})
    return folders or sorted(set(below))


def _list_names(names: Iterable[str]) -> str:
    return first_names([repr(name) for name in names], _MAX_NAMED)
