"""Encodes the ledger's facts that are stored with a snapshot, and decodes them on restore.

With them the ledger of a restored folder is known: its commit, its ref, its settings, and which of its files
are unmanaged. No I/O. Decoded facts are checked like any outside input: a person who can write to the bucket
must not make the agent write to other paths.
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
"""More than a million paths need."""

_KINDS = {one.name: type(getattr(LedgerFacts(), one.name)) for one in fields(LedgerFacts)}
_PATHS = ("folders", "kept", "mirrored", "unmapped")


class SnapshotLedgerFacts(NamedTuple):
    """The ledger's facts to be set again when the snapshot's files are restored."""

    facts: LedgerFacts
    foreign: frozenset[str]
    """Unmanaged files of the snapshot."""
    owner: str = ""
    """The resource that owns the gateway; empty if the storage holds only one gateway."""


def facts_of(ledger: Ledger) -> LedgerFacts:
    return LedgerFacts(**{name: getattr(ledger, name) for name in _KINDS})


def encode_facts(ledger: Ledger, foreign: tuple[str, ...], owner: str = "") -> bytes:
    said = {"facts": plain_facts(facts_of(ledger), None), "foreign": list(foreign), "owner": owner}
    return zlib.compress(json.dumps(said).encode(), 1)


def decode_facts(data: bytes, snapshot_id: str) -> SnapshotLedgerFacts:
    """Return the facts; raise for data that Stoker did not write."""
    try:
        inflating = zlib.decompressobj()
        text = inflating.decompress(data, MAX_BYTES)
        if inflating.unconsumed_tail or not inflating.eof:
            raise ValueError("it is larger than any file that Stoker writes")
        return _check_facts(json.loads(text))
    except (ValueError, KeyError, TypeError, RecursionError, zlib.error) as error:
        raise Stalled(
            f"snapshot {snapshot_id} has unreadable ledger data: {error}",
            reason=Reason.SNAPSHOT_CORRUPT,
        ) from None


def _check_facts(said: dict[str, object]) -> SnapshotLedgerFacts:
    told, foreign, owner = said["facts"], _string_list(said["foreign"]), said.get("owner", "")
    if not isinstance(owner, str):
        raise ValueError("its owner is not text")
    if not isinstance(told, dict) or not told.keys() <= _KINDS.keys():
        raise ValueError("it has an unknown field")
    for name, value in told.items():
        if _KINDS[name] is frozenset:
            _string_list(value)
        elif not isinstance(value, _KINDS[name]):
            raise ValueError(f"{name} is not of type {_KINDS[name].__name__}")
    for paths in (foreign, *(_string_list(told.get(name, [])) for name in _PATHS)):
        if "" in paths or not RelPath.all_of(paths):
            raise ValueError("a path leads outside the data folder")
    return SnapshotLedgerFacts(with_facts(LedgerFacts(), told), frozenset(foreign), owner)


def _string_list(value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError("a list holds values that are not text")
    return value
