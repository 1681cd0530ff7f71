"""The namespaces with which a shard may begin while other shards have another count."""

from __future__ import annotations

import pytest

from stoker.api.meta import ObjectMeta
from stoker.controller.sharding.division import SHARDS, ShardDivision, shard_count, shard_index
from stoker.domain.shards import Shard, shard_of_namespace
from stoker.kube.leader.lease import Lease, LeaseSpec

NAMES = [f"plant-{number}" for number in range(60)]
KEPT = next(name for name in NAMES if shard_of_namespace(name, 3) == 0)
"""The first shard's, of two and of three."""
MOVED = next(name for name in NAMES if shard_of_namespace(name, 2) == 0 and shard_of_namespace(name, 3) == 2)
"""The first shard's of two, the last one's of three."""
OTHER = next(name for name in NAMES if shard_of_namespace(name, 2) == 1)


def lease(
    index: int,
    holder: str | None = "somebody",
    count: int | None = None,
    version: str = "1",
    duration: int = 15,
) -> Lease:
    said = {} if count is None else {SHARDS: str(count)}
    return Lease(
        metadata=ObjectMeta(name=f"stoker-controller-{index}", resource_version=version, annotations=said),
        spec=LeaseSpec(holder_identity=holder, lease_duration_seconds=duration),
    )


def division(text: str, found: Lease | None = None) -> ShardDivision:
    return ShardDivision(Shard.parse(text), found, 15)


def test_nothing_is_begun_before_a_look() -> None:
    one = division("0/1")
    assert not one.may(KEPT)
    assert not one.settled
    one.saw([], 0)
    assert one.may(KEPT)
    assert one.settled


def test_shards_of_one_count_do_not_wait_for_each_other() -> None:
    one = division("0/2", lease(0, "", 2))
    one.saw([lease(0, count=2), lease(1, count=2)], 0)
    assert one.settled
    assert one.may(KEPT)
    assert not one.may(OTHER)


def test_a_new_shard_waits_for_the_one_it_takes_from_and_for_no_other() -> None:
    new = division("2/3", lease(2, None))
    new.saw([lease(0, count=2), lease(1, count=3), lease(2, count=3)], 0)
    assert not new.may(MOVED)
    assert new.others == ("0/2",)
    free = next(
        name for name in NAMES if shard_of_namespace(name, 3) == 2 and shard_of_namespace(name, 2) == 1
    )
    assert new.may(free), "its owner counts as we do already"


def test_an_old_shard_keeps_what_stays_its_own() -> None:
    """One more shard makes the others wait for nothing."""
    old = division("0/3", lease(0, "", 2))
    old.saw([lease(0, count=3), lease(1, count=2), lease(2, count=3)], 0)
    assert all(old.may(name) for name in NAMES if shard_of_namespace(name, 3) == 0)


@pytest.mark.parametrize(
    "later",
    [
        pytest.param([lease(0, "", 2, "2")], id="given back"),
        pytest.param([lease(0, "new", 3, "2")], id="taken over by the new count"),
    ],
)
def test_the_wait_ends_with_the_old_count(later: list[Lease]) -> None:
    new = division("2/3", lease(2, None))
    new.saw([lease(0, count=2)], 0)
    new.saw(later, 1)
    assert new.may(MOVED)
    assert new.settled


def test_a_holder_that_died_is_waited_out_by_our_own_clock() -> None:
    new = division("2/3", lease(2, None))
    for moment, version in ((0, "1"), (10, "2"), (24.9, "2")):
        new.saw([lease(0, count=2, version=version)], moment)
        assert not new.may(MOVED)
    new.saw([lease(0, count=2, version="2")], 25)
    assert new.may(MOVED)


def test_a_dead_holder_is_not_waited_for_again() -> None:
    new = division("2/3", lease(2, None))
    dead = [lease(0, count=2), lease(1, count=2)]
    new.saw(dead[:1], 0)
    for at in range(6, 120, 2):
        new.saw(dead, at)
        assert new.settled is (at >= 21), at
    new.saw([], 200)
    assert new.settled, "an old Lease that is deleted at last changes nothing"
    new.saw([lease(0, count=2, version="2")], 202)
    assert not new.settled, "who renews it lives"


def test_a_longer_lease_is_waited_out_for_longer() -> None:
    new = division("2/3", lease(2, None))
    new.saw([lease(0, count=2, duration=60)], 0)
    new.saw([lease(0, count=2, duration=60)], 59)
    assert not new.may(MOVED)
    new.saw([lease(0, count=2, duration=60)], 60)
    assert new.may(MOVED)


def test_a_lease_that_is_deleted_under_its_holder_leaves_him_the_time_to_notice() -> None:
    new = division("2/3", lease(2, None))
    new.saw([lease(0, count=2)], 0)
    for moment in (10, 24.9):
        new.saw([], moment)
        assert not new.may(MOVED)
    new.saw([], 25)
    assert new.may(MOVED)


def test_what_belonged_to_a_shard_whose_lease_went_with_it_is_waited_for() -> None:
    """The chart deletes the Lease of a shard that it takes away; its pod may still work."""
    fewer = division("0/2", lease(0, "", 3))
    fewer.saw([lease(0, count=2), lease(1, count=3)], 0)
    assert fewer.may(KEPT)
    assert not fewer.may(MOVED)
    fewer.saw([lease(0, count=2), lease(1, count=2)], 14.9)
    assert not fewer.may(MOVED)
    fewer.saw([lease(0, count=2), lease(1, count=2)], 15)
    assert fewer.may(MOVED)
    assert fewer.settled


def test_a_first_start_waits_for_no_other_shard() -> None:
    for found in (None, lease(0, None), lease(0, "", 1)):
        one = division("0/1", found)
        one.saw([lease(0, count=1)], 0)
        assert one.settled


def test_who_says_no_count_has_everything() -> None:
    """A version from before there were shards."""
    assert shard_count(lease(0)) == 1
    new = division("1/2", lease(1, None))
    new.saw([lease(0)], 0)
    assert not new.may(OTHER)


@pytest.mark.parametrize("said", ["", "none", "-2", "0", "1e3", "9999"])
def test_a_count_that_is_none_is_taken_for_everything(said: str) -> None:
    spoiled = Lease(metadata=ObjectMeta(annotations={SHARDS: said}), spec=LeaseSpec(holder_identity="x"))
    assert shard_count(spoiled) == 1


@pytest.mark.parametrize(
    "name", ["stoker-controller", "stoker-controller-x", "a-stoker-controller-0", "election"]
)
def test_other_leases_of_the_namespace_belong_to_no_shard(name: str) -> None:
    assert shard_index(Lease(metadata=ObjectMeta(name=name))) is None
