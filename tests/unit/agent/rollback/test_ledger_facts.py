"""The facts beside a snapshot, and files that other processes may have changed since."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest

from stoker.agent.rollback import ledger_facts
from stoker.agent.rollback.ledger_facts import decode_facts, encode_facts, facts_of
from stoker.domain.errors import Stalled
from stoker.domain.reasons import Reason
from stoker.engine.plan.ledger import Ledger

LEDGER = Ledger(
    mappings=frozenset({"s -> d"}),
    folders=frozenset({"d", "e"}),
    kept=frozenset({"d/before"}),
    excludes=frozenset({"**/*.bak"}),
    mirrored=frozenset({"d"}),
    given=frozenset({"0 d/ 1"}),
    held=frozenset({"c e"}),
    ref="main",
    commit="c",
    settings="these",
)


def packed(facts: object) -> bytes:
    return zlib.compress(json.dumps(facts).encode())


def facts(**more: Any) -> dict[str, Any]:
    return {"facts": {}, "foreign": [], "owner": "", **more}


def test_what_is_written_is_read_again() -> None:
    found = decode_facts(encode_facts(LEDGER, ("d/theirs",), "a/Stoker/plant"), "s1")
    assert found.facts == facts_of(LEDGER)
    assert found.foreign == {"d/theirs"}
    assert found.owner == "a/Stoker/plant"


def test_one_from_before_owners_were_named_has_none() -> None:
    assert decode_facts(packed({"facts": {}, "foreign": []}), "s1").owner == ""


@pytest.mark.parametrize(
    "content",
    [
        b"no archive",
        packed(facts())[:-6],
        packed([]),
        packed({"foreign": []}),
        packed({"facts": {}}),
        packed(facts(owner=1)),
        packed(facts(facts=[])),
        packed(facts(facts={"unheard of": "x"})),
        packed(facts(facts={"commit": ["c"]})),
        packed(facts(facts={"folders": "d"})),
        packed(facts(facts={"given": [1]})),
        packed(facts(foreign="d/theirs")),
        packed(facts(foreign=[1])),
        packed(facts(foreign=[""])),
        packed(facts(foreign=["../out"])),
        packed(facts(facts={"folders": ["../out"]})),
        packed(facts(facts={"folders": [""]})),
        packed(facts(facts={"kept": ["/etc/passwd"]})),
        packed(facts(facts={"mirrored": ["d/../../out"]})),
    ],
)
def test_what_we_did_not_write_is_refused_by_name(content: bytes) -> None:
    with pytest.raises(Stalled, match="snapshot s1 has unreadable ledger data") as refused:
        decode_facts(content, "s1")
    assert refused.value.reason is Reason.SNAPSHOT_CORRUPT


def test_what_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    content = packed(facts(foreign=[f"d/{number}" for number in range(1000)]))
    assert len(decode_facts(content, "s1").foreign) == 1000
    monkeypatch.setattr(ledger_facts, "MAX_BYTES", 5000)
    with pytest.raises(Stalled, match="larger than any file"):
        decode_facts(content, "s1")
