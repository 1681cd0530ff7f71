"""The shard of a namespace, and invalid shards."""

from __future__ import annotations

from collections import Counter

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.shards import MAX_SHARDS, SINGLE_SHARD, Shard, shard_of_namespace

NAMESPACES = [f"plant-{number:03}" for number in range(600)]


@pytest.mark.parametrize("count", range(1, MAX_SHARDS + 1))
def test_every_namespace_belongs_to_exactly_one_shard(count: int) -> None:
    shards = [Shard(index, count) for index in range(count)]
    for namespace in NAMESPACES:
        assert [shard.index for shard in shards if shard.has(namespace)] == [
            shard_of_namespace(namespace, count)
        ]


def test_the_answer_is_the_same_in_every_process_and_version() -> None:
    """Two replicas, or two versions during an update, that disagreed would both work on a namespace."""
    found = [
        shard_of_namespace(name, count)
        for name in ("plant-north", "plant-south", "default")
        for count in (2, 3, 5)
    ]
    assert found == [0, 0, 3, 0, 0, 0, 1, 1, 4]


@pytest.mark.parametrize("count", range(1, MAX_SHARDS))
def test_a_shard_more_takes_namespaces_and_moves_none_between_the_others(count: int) -> None:
    moved = {
        name for name in NAMESPACES if shard_of_namespace(name, count) != shard_of_namespace(name, count + 1)
    }
    assert moved == {name for name in NAMESPACES if shard_of_namespace(name, count + 1) == count}
    assert len(moved) < 1.5 * len(NAMESPACES) / (count + 1)


def test_namespaces_are_spread_evenly() -> None:
    shares = Counter(shard_of_namespace(name, 4) for name in NAMESPACES).values()
    assert len(shares) == 4
    assert max(shares) < 1.25 * len(NAMESPACES) / 4


def test_the_only_shard_has_everything() -> None:
    assert Shard.parse("0/1") == SINGLE_SHARD
    assert all(SINGLE_SHARD.has(name) for name in ("", *NAMESPACES))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "shard '' is not of the form I/N, such as 0/2 for the first of two"),
        ("1", "shard '1' is not of the form I/N"),
        ("1/", "shard '1/' is not of the form I/N"),
        ("a/b", "is not of the form I/N"),
        ("-1/2", "is not of the form I/N"),
        ("0/2 ", "is not of the form I/N"),
        ("0/2\n", "is not of the form I/N"),
        ("\u0660/\u0662", "is not of the form I/N"),
        ("0/0", "shard 0/0: there can be from 1 to 16 shards"),
        ("0/17", "shard 0/17: there can be from 1 to 16 shards"),
        ("2/2", "shard 2/2: shards are counted from 0, so the last of 2 is 1/2"),
        ("9" * 80, "is not of the form I/N"),
    ],
)
def test_nonsense_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        Shard.parse(text)
    assert sentence in refused.value.message
    assert len(refused.value.message) < 120
