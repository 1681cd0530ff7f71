"""The ledger as bytes: whatever is wrong with them is noticed, and never a path invented."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.git_objects import BlobId, FileVersion, blob_of
from stoker.domain.paths import RelPath
from stoker.engine.plan.ledger import encode_record
from stoker.engine.plan.plan import LedgerFacts
from stoker.fs import journal
from stoker.fs.journal import JournalFrames, JournalUnreadable, LedgerChange
from stoker.fs.stat_stamp import unseen_stamp

GENERATION = b"0123456789abcdef"


def canonical(text: str) -> bool:
    try:
        return bool(RelPath(text))
    except InvalidValue:
        return False


names = st.text("aé漢.- 1", min_size=1, max_size=6)
paths = st.lists(names, min_size=1, max_size=3).map("/".join).filter(canonical)
blobs = st.sampled_from([20, 32]).flatmap(lambda size: st.binary(min_size=size, max_size=size)).map(bytes.hex)
versions = st.builds(FileVersion, blobs.map(BlobId), st.booleans())
stats = st.binary(min_size=32, max_size=32)
records = st.builds(
    lambda version, stat: encode_record(version, stat + bytes([version.executable])), versions, stats
)
changes = st.builds(
    LedgerChange,
    files=st.dictionaries(paths, records, max_size=5),
    gone=st.lists(paths, max_size=3),
    intended=st.dictionaries(paths, records.map(journal.pack_version), max_size=3),
    facts=st.fixed_dictionaries(
        {},
        optional={
            "commit": st.text(max_size=8),
            "settings": st.text(max_size=8),
            "folders": st.lists(paths, max_size=3),
            "kept": st.lists(paths, max_size=3),
            "mappings": st.lists(st.text(max_size=8), max_size=3),
        },
    ),
    complete=st.booleans(),
)


quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(changes)
def test_a_base_gives_back_what_was_put_in(change: LedgerChange) -> None:
    assert journal.decode_base(b"".join(journal.encode_base(GENERATION, change))) == (GENERATION, change)


@given(versions)
def test_a_version_gives_back_what_was_put_in(version: FileVersion) -> None:
    assert (
        journal.unpack_version(journal.pack_version(encode_record(version, unseen_stamp(version.executable))))
        == version
    )


def written(*steps: LedgerChange) -> bytes:
    frames = JournalFrames(GENERATION)
    data = b""
    for change in steps:
        frame = frames.next(change)
        frames.wrote(frame)
        data += frame
        assert frames.end == len(data)
    return data


@quick
@given(st.lists(changes, max_size=4), changes)
def test_a_journal_gives_back_what_was_put_in_and_goes_on(
    steps: list[LedgerChange], another: LedgerChange
) -> None:
    data = written(*steps)
    frames = JournalFrames(GENERATION)
    assert frames.read(data) == steps
    assert frames.end == len(data)
    assert JournalFrames(GENERATION).read(data + frames.next(another)) == [*steps, another]


@quick
@given(st.lists(changes, min_size=1, max_size=4), st.data())
def test_whatever_happens_to_its_bytes_a_journal_is_read_up_to_there(
    steps: list[LedgerChange], chosen: st.DataObject
) -> None:
    data = written(*steps)
    at = chosen.draw(st.integers(0, len(data) - 1))
    damage = chosen.draw(
        st.one_of(
            st.just(data[:at]),
            st.integers(0, 7).map(lambda bit: data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]),
            st.binary(min_size=1, max_size=40).map(lambda garbage: data[:at] + garbage),
            st.binary(min_size=1, max_size=40).map(lambda garbage: data + garbage),
        )
    )
    frames = JournalFrames(GENERATION)
    found = frames.read(damage)
    assert found == steps[: len(found)]
    assert frames.end <= len(damage)
    if len(found) == len(steps):
        assert damage[: len(data)] == data


@quick
@given(changes, st.data())
def test_whatever_happens_to_the_bytes_of_a_base_it_is_noticed(
    change: LedgerChange, chosen: st.DataObject
) -> None:
    data = b"".join(journal.encode_base(GENERATION, change))
    at = chosen.draw(st.integers(0, len(data) - 1))
    bit = chosen.draw(st.integers(0, 7))
    for damage in (data[:at], data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :], data + b"\0"):
        with pytest.raises(JournalUnreadable):
            journal.decode_base(damage)


def test_frames_of_another_journal_or_another_place_do_not_count() -> None:
    one, two = LedgerChange({}, gone=["a"]), LedgerChange({}, gone=["b"])
    data = written(one, two)
    assert JournalFrames(b"x" * journal.GENERATION).read(data) == []
    first = len(written(one))
    swapped = data[: journal.GENERATION] + data[first:] + data[journal.GENERATION : first]
    assert JournalFrames(GENERATION).read(swapped) == []
    doubled = data + data[first:]
    assert JournalFrames(GENERATION).read(doubled) == [one, two]


def test_random_bytes_are_no_ledger() -> None:
    chance = random.Random(7)  # noqa: S311 - the same bytes each time
    for size in (0, 1, 15, 16, 39, 40, 1000):
        with pytest.raises(JournalUnreadable):
            journal.decode_base(chance.randbytes(size))
        assert JournalFrames(GENERATION).read(GENERATION + chance.randbytes(size)) == []


GOOD = encode_record(FileVersion(blob_of(b"1")))


def in_a_base(change: LedgerChange) -> object:
    return journal.decode_base(b"".join(journal.encode_base(GENERATION, change)))


def in_a_frame(change: LedgerChange) -> object:
    return JournalFrames(GENERATION).read(JournalFrames(GENERATION).next(change))


OUT = "../../etc/passwd"


@pytest.mark.parametrize("read", [in_a_base, in_a_frame])
@pytest.mark.parametrize(
    "change",
    [
        LedgerChange({OUT: GOOD}),
        LedgerChange({"/etc/passwd": GOOD}),
        LedgerChange({"": GOOD}),
        LedgerChange({"d/../../x": GOOD}),
        LedgerChange({"d/.git/config": GOOD}),
        LedgerChange({"d/a\0": GOOD}),
        LedgerChange({"d/a": b"short"}),
        LedgerChange({"d/a": GOOD + b"x"}),
        LedgerChange({}, gone=[OUT]),
        LedgerChange({}, gone=[""]),
        LedgerChange({}, intended={OUT: journal.pack_version(GOOD)}),
        LedgerChange({}, intended={"x": b"1"}),
        LedgerChange({}, intended={"x": GOOD}),
        LedgerChange({}, facts={"folders": [OUT]}),
        LedgerChange({}, facts={"folders": [""]}),
        LedgerChange({}, facts={"kept": ["/etc"]}),
        LedgerChange({}, facts={"mirrored": [OUT]}),
        LedgerChange({}, facts={"folders": "d"}),
        LedgerChange({}, facts={"commit": ["d"]}),
        LedgerChange({}, facts={"given": {"d": 1}}),  # type: ignore[dict-item]
        LedgerChange({}, facts={"unheard": "of"}),
    ],
)
def test_a_ledger_with_the_right_checksum_leads_nowhere_else(
    change: LedgerChange, read: Callable[[LedgerChange], object]
) -> None:
    """A process that can write there knows our format, and must not make us delete elsewhere."""
    with pytest.raises(JournalUnreadable):
        read(change)


def test_what_such_a_ledger_may_say_is_read() -> None:
    """So that the refusals are about what is wrong with the others."""
    change = LedgerChange(
        {"d/a": GOOD}, ["d/b"], {"d/c": journal.pack_version(GOOD)}, {"folders": ["d"]}, True
    )
    assert in_a_base(change) == (GENERATION, change)
    assert in_a_frame(change) == [change]


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"files": []},
        {"files": {"../../etc/passwd": GOOD}},
        {"files": {"/etc/passwd": GOOD}},
        {"files": {"": GOOD}},
        {"files": {"d/../../x": GOOD}},
        {"files": {"d/.git/config": GOOD}},
        {"files": {"d/a\0": GOOD}},
        {"files": {"d/a": b"short"}},
        {"files": {"d/a": GOOD + b"x"}},
        {"files": {"d/a": "text"}},
        {"gone": ["../x"]},
        {"intended": {"../x": journal.pack_version(GOOD)}},
        {"intended": {"x": b""}},
        {"facts": {"folders": ["../.."]}},
        {"facts": {"folders": [""]}},
        {"facts": {"kept": ["/etc"]}},
        {"facts": {"folders": "d"}},
        {"facts": {"commit": ["d"]}},
        {"facts": {"given": {"d": 1}}},
        {"facts": {"unheard": "of"}},
        {"unheard": 1},
        {"complete": 1},
    ],
)
def test_a_form_that_is_not_ours_is_refused_although_its_checksum_fits(content: object) -> None:
    """Any content; content in our own format is tested above."""
    raw = msgspec.msgpack.encode(content)
    with pytest.raises(JournalUnreadable):
        journal.decode_base(_base(raw))
    plain = written(LedgerChange({}))
    frame = journal._FRAME.pack(len(raw), zlib.crc32(raw, zlib.crc32(GENERATION))) + raw
    with pytest.raises(JournalUnreadable):
        JournalFrames(GENERATION).read(plain[: journal.GENERATION] + frame)


def _base(raw: bytes, version: int = journal.FORMAT) -> bytes:
    head = journal._HEAD.pack(journal.MAGIC, version, GENERATION, len(raw))
    return head + journal._CHECK.pack(zlib.crc32(raw, zlib.crc32(head))) + raw


def test_a_later_format_is_named() -> None:
    assert journal.decode_base(b"".join(journal.encode_base(b"g" * 16, LedgerChange({}))))[1] == LedgerChange(
        {}, gone=[]
    )
    with pytest.raises(Stalled, match="format 3"):
        journal.decode_base(_base(b"whatever comes then", version=3))


def test_only_facts_that_changed_are_recorded() -> None:
    known = LedgerFacts(commit="a", folders=frozenset({"d", "e"}), given=frozenset({"0:d/ 1"}))
    after = replace(known, commit="b", kept=frozenset({"d/x"}))
    assert journal.plain_facts(after, known) == {"commit": "b", "kept": ["d/x"]}
    assert journal.with_facts(known, journal.plain_facts(after, known)) == after
    assert journal.with_facts(LedgerFacts(), journal.plain_facts(after, None)) == after
