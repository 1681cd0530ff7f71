"""Names of a ledger: a new file that may collide with an old one is noticed."""

import pytest

from stoker.domain.git_objects import FileVersion, blob_of
from stoker.engine.layout.incremental_collisions import MAX_NEW_FILES, may_collide
from stoker.engine.plan.ledger import Ledger, encode_record

VERSION = FileVersion(blob_of(b"1"))


def ledger_of(*paths: str, commit: str = "1") -> Ledger:
    return Ledger(dict.fromkeys(paths, encode_record(VERSION)), commit=commit, settings="s")


LEDGER = ledger_of("d/View/a", "d/b", "caf\u00e9/x")


@pytest.mark.parametrize(
    "fresh",
    [
        ["d/B"],
        ["d/view/c"],
        ["d/View"],
        ["d/b/c"],
        ["cafe\u0301/y"],
        ["n/x", "n/X"],
        ["n/x", "N/y"],
        ["n", "n/x"],
    ],
)
def test_a_name_that_may_collide_is_noticed(fresh: list[str]) -> None:
    assert may_collide(fresh, frozenset(), LEDGER.files)
    assert may_collide(fresh[::-1], frozenset(), LEDGER.files)


def test_other_names_do_not_collide() -> None:
    fresh = ["d/View/b", "d/c", "n/x", "n/y", "caf\u00e9/y"]
    assert not may_collide(fresh, frozenset(), LEDGER.files)


def test_a_file_that_goes_makes_room_for_a_folder() -> None:
    assert not may_collide(["d/b/c"], frozenset({"d/b"}), LEDGER.files)


def test_a_name_that_folds_into_plain_letters_is_noticed() -> None:
    assert may_collide(["d/\u212a"], frozenset(), ledger_of("d/k").files)
    assert not may_collide(["d/\u00fc"], frozenset(), ledger_of("d/k").files)


def test_a_name_is_no_pattern() -> None:
    assert not may_collide(["d/.*"], frozenset(), LEDGER.files)
    assert not may_collide(["d/Vie"], frozenset(), LEDGER.files)


def test_more_new_files_than_are_worth_looking_for_one_by_one_may_clash() -> None:
    some = [f"d/new{number}" for number in range(MAX_NEW_FILES)]
    assert not may_collide(some, frozenset(), LEDGER.files)
    assert may_collide([*some, "d/one-more"], frozenset(), LEDGER.files)
