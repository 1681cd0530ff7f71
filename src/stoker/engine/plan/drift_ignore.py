"""Differences on disk that the user declared not to be drift: `spec.drift.ignore`.

A rule selects files by a glob, and optionally one value within them by a JSON pointer. A file that a rule
ignores as a whole counts as unchanged since the ledger, whatever is on disk; a change at the source is
still written. A file with a pointer is compared without that value, and drifts if anything else in it
differs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stoker.engine.layout.desired_files import DesiredFiles
from stoker.engine.match.globs import GlobSet, PathBatch, folders_above
from stoker.engine.plan.ledger import Ledger
from stoker.engine.plan.live import LiveDifferences

if TYPE_CHECKING:
    from stoker.domain.intent.policies import DriftIgnorePolicy

PointerSteps = tuple[str, ...]


class DriftIgnoreRules:
    """The ignore rules of one gateway; usually empty."""

    __slots__ = ("_pointed", "_whole")

    def __init__(self, rules: Sequence[DriftIgnorePolicy] = ()) -> None:
        self._whole = GlobSet(rule.path for rule in rules if not rule.json_pointer)
        self._pointed = tuple(
            (GlobSet((rule.path,)), pointer_steps(rule.json_pointer)) for rule in rules if rule.json_pointer
        )

    def __bool__(self) -> bool:
        return bool(self._whole or self._pointed)

    def covers(self, path: str) -> bool:
        """Whether the whole file is ignored."""
        return self._whole.matches(path)

    def pointers(self, path: str) -> tuple[PointerSteps, ...]:
        """Return the pointers to the ignored values in a file."""
        return tuple(steps for globs, steps in self._pointed if globs.matches(path))

    def without(
        self, live: LiveDifferences, ledger: Ledger, desired: DesiredFiles | None = None
    ) -> LiveDifferences:
        """Return the differences without ignored ones.

        A difference stays where the desired content changed.
        """
        if not self._whole or not live.found:
            return live
        matching = self._whole.matching(PathBatch(live.found))
        if desired is not None and matching:
            above = folders_above(desired.files) if not matching <= ledger.files.keys() else set()
            matching = {path for path in matching if path not in above and _is_kept(path, ledger, desired)}
        if not matching:
            return live
        return live._replace(
            found={path: entry for path, entry in live.found.items() if path not in matching}
        )


NO_DRIFT_IGNORED = DriftIgnoreRules()


def _is_kept(path: str, ledger: Ledger, desired: DesiredFiles) -> bool:
    if path in ledger.intended:
        return False
    wanted = desired.files.get(path)
    if wanted is not None:
        return wanted == ledger.version(path)
    return path not in ledger.files or (desired.partial and path not in desired.removed)


def pointer_steps(pointer: str) -> PointerSteps:
    """Return the keys of an RFC 6901 pointer."""
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])


def equal_except_pointers(pointers: Sequence[PointerSteps], before: bytes, after: bytes) -> bool:
    """Whether two JSON documents are equal apart from the values at the pointers; False for invalid JSON."""
    try:
        return _remove_pointers(pointers, before) == _remove_pointers(pointers, after)
    except (ValueError, RecursionError):
        return False


def _remove_pointers(pointers: Sequence[PointerSteps], content: bytes) -> str:
    document = json.loads(content, object_pairs_hook=_refuse_duplicate_keys)
    for steps in pointers:
        _remove(document, steps)
    return json.dumps(document, sort_keys=True)  # compared as text, because 1 == True in Python


def _remove(document: Any, steps: PointerSteps) -> None:
    *above, last = steps
    for step in above:
        document = _child(document, step)
    if isinstance(document, dict):
        document.pop(last, None)
    elif isinstance(document, list) and _index(last, document) is not None:
        document.pop(int(last))


def _child(document: Any, step: str) -> Any:
    if isinstance(document, dict):
        return document.get(step)
    if isinstance(document, list) and (index := _index(step, document)) is not None:
        return document[index]
    return None


def _index(step: str, elements: list[Any]) -> int | None:
    if step.isascii() and step.isdecimal() and len(step) < 10 and int(step) < len(elements):
        return int(step)
    return None


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice, and it is unknown which one counts")
    return found
