"""Skipped content: named up to a limit, counted in full, and the same after the ledger kept it."""

from __future__ import annotations

from stoker.domain.git_objects import PathNote
from stoker.engine.plan.skipped import MAX_NAMED, SkippedContent


def test_the_first_ten_are_named_and_the_rest_is_counted() -> None:
    skipped = SkippedContent.of(
        [PathNote(f"link-{number:02}", "is a symlink") for number in range(12, 0, -1)]
    )
    assert len(skipped.notes) == MAX_NAMED
    assert skipped.lines[0] == "link-01: is a symlink"
    assert skipped.lines[-1] == "and 2 more"


def test_the_ledger_gives_back_what_it_was_given() -> None:
    skipped = SkippedContent.of([PathNote(f"a: b {number:02}", "is: odd") for number in range(12)])
    assert SkippedContent.stored(skipped.texts, skipped.total) == skipped
    assert SkippedContent.stored((), 0) == SkippedContent()


def test_a_name_cannot_break_out_of_its_line() -> None:
    (text,) = SkippedContent.of([PathNote("a\tb\nc", "is odd")]).texts
    assert SkippedContent.stored((text,), 1).lines == ("a\\tb\\nc: is odd",)
