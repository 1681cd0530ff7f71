"""What the ledger said when a snapshot was taken, as the bytes that ride with it.

With them a folder that was put back is known again: its commit, its ref, its
settings, and which of its files are not ours. Pure. What comes back is checked like
anything from outside: who can write to a bucket must not make us touch other places.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import fields
from typing import NamedTuple

from stoker.domain.errors import Stalled
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.plan.ledger import Ledger
from stoker.engine.plan.plan import LedgerFacts
from stoker.fs.journal import plain_facts, with_facts

MAX_BYTES = 64 << 20
"""More than a million paths take."""

_KINDS = {one.name: type(getattr(LedgerFacts(), one.name)) for one in fields(LedgerFacts)}
_PATHS = ("folders", "kept", "mirrored")


class SnapshotLedgerFacts(NamedTuple):
    """What holds again once the files lie there again."""

    facts: LedgerFacts
    foreign: frozenset[str]
    """Files of the snapshot that we had not written."""
    owner: str = ""
    """Whose gateway it is; empty where the place alone says that."""


def facts_of(ledger: Ledger) -> LedgerFacts:
    return LedgerFacts(**{name: getattr(ledger, name) for name in _KINDS})


def encode_facts(ledger: Ledger, foreign: tuple[str, ...], owner: str = "") -> bytes:
    said = {"facts": plain_facts(facts_of(ledger), None), "foreign": list(foreign), "owner": owner}
    return zlib.compress(json.dumps(said).encode(), 1)


def decode_facts(data: bytes, snapshot_id: str) -> SnapshotLedgerFacts:
    """Raises for what we did not write."""
    try:
        inflating = zlib.decompressobj()
        text = inflating.decompress(data, MAX_BYTES)
        if inflating.unconsumed_tail or not inflating.eof:
            raise ValueError("it is larger than anything that we write")
        return _check_facts(json.loads(text))
    except (ValueError, KeyError, TypeError, RecursionError, zlib.error) as error:
        raise Stalled(
            f"snapshot {snapshot_id} does not say what its files were at: {error}",
            reason=Reason.SNAPSHOT_CORRUPT,
        ) from None


def _check_facts(said: dict[str, object]) -> SnapshotLedgerFacts:
    told, foreign, owner = said["facts"], _string_list(said["foreign"]), said.get("owner", "")
    if not isinstance(owner, str):
        raise ValueError("its owner is no text")
    if not isinstance(told, dict) or not told.keys() <= _KINDS.keys():
        raise ValueError("a fact is unknown")
    for name, value in told.items():
        if _KINDS[name] is frozenset:
            _string_list(value)
        elif not isinstance(value, _KINDS[name]):
            raise ValueError(f"{name} is not of type {_KINDS[name].__name__}")
    for paths in (foreign, *(_string_list(told.get(name, [])) for name in _PATHS)):
        if "" in paths or not RelPath.all_of(paths):
            raise ValueError("a path leads out of its place")
    return SnapshotLedgerFacts(with_facts(LedgerFacts(), told), frozenset(foreign), owner)


def _string_list(value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError("a list holds something else than texts")
    return value
