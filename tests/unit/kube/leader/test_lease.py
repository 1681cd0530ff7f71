"""The lease as an object, and the decision of one candidate about it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from stoker.api.meta import ObjectMeta, OwnerReference
from stoker.domain.errors import Misconfigured
from stoker.kube.leader.election import Election, ElectionPause, LeaseAction
from stoker.kube.leader.lease import Lease, LeaseSpec, LeaseTerms, claim_lease, release_lease, unique_identity

NOW = datetime(2031, 2, 3, 4, 5, 6, 789_012, tzinfo=UTC)
STAMP = "2031-02-03T04:05:06.789012Z"
NAME, NAMESPACE = "stoker-controller-0", "stoker-system"
ME = LeaseTerms("me", 15, 5)


def lease(holder: str, version: str, duration: int = 15, transitions: int = 0) -> Lease:
    return Lease(
        metadata=ObjectMeta(name=NAME, namespace=NAMESPACE, resource_version=version),
        spec=LeaseSpec(
            holder_identity=holder, lease_duration_seconds=duration, lease_transitions=transitions
        ),
    )


# The object.


def test_a_new_lease_names_its_holder_its_start_and_its_duration() -> None:
    made = msgspec.json.decode(msgspec.json.encode(claim_lease(None, ME, NAME, NAMESPACE, NOW)))
    assert made == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "acquireTime": STAMP,
            "renewTime": STAMP,
            "leaseTransitions": 0,
        },
    }


def test_a_renewal_moves_only_the_time_of_renewal() -> None:
    first = claim_lease(None, ME, NAME, NAMESPACE, NOW)
    again = claim_lease(first, ME, NAME, NAMESPACE, NOW + timedelta(seconds=5))
    assert again.spec.acquire_time == STAMP
    assert again.spec.renew_time == "2031-02-03T04:05:11.789012Z"
    assert again.transitions == 0


def test_taking_it_from_another_counts_a_transition_and_begins_a_new_time() -> None:
    old = claim_lease(lease("other", "7", transitions=3), ME, NAME, NAMESPACE, NOW)
    assert (old.holder, old.transitions, old.spec.acquire_time) == ("me", 4, STAMP)
    assert old.version == "7"


def test_a_release_leaves_a_lease_that_any_process_may_take_at_once() -> None:
    free = release_lease(claim_lease(lease("other", "7"), ME, NAME, NAMESPACE, NOW), NOW)
    encoded = msgspec.json.decode(msgspec.json.encode(free))
    assert encoded["spec"]["holderIdentity"] == ""
    assert encoded["spec"]["leaseDurationSeconds"] == 1
    assert encoded["spec"]["leaseTransitions"] == 1


def test_what_others_added_to_the_object_is_kept() -> None:
    theirs = b"""{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"x","namespace":"y",
        "uid":"u","resourceVersion":"9","labels":{"a":"b"},"annotations":{"c":"d"},"finalizers":["e/f"],
        "ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"p"}]},
        "spec":{"holderIdentity":"other","strategy":"OldestEmulationVersion","preferredHolder":"z"}}"""
    mine = claim_lease(msgspec.json.decode(theirs, type=Lease), ME, "x", "y", NOW)
    kept, had = msgspec.json.decode(msgspec.json.encode(mine)), msgspec.json.decode(theirs)
    assert kept["metadata"] == had["metadata"]
    assert kept["spec"]["strategy"] == "OldestEmulationVersion"
    assert kept["spec"]["preferredHolder"] == "z"


def test_a_lease_names_the_account_of_its_holder_and_no_other() -> None:
    def account(name: str) -> OwnerReference:
        return OwnerReference(api_version="v1", kind="ServiceAccount", name=name, uid=f"uid of {name}")

    stranger = OwnerReference(api_version="v1", kind="ConfigMap", name="o", uid="p")
    made = claim_lease(None, replace(ME, owner=account("old")), NAME, NAMESPACE, NOW)
    assert made.metadata.owner_references == (account("old"),)
    made = msgspec.structs.replace(
        made, metadata=msgspec.structs.replace(made.metadata, owner_references=(stranger, account("old")))
    )
    taken = claim_lease(made, replace(ME, identity="next", owner=account("new")), NAME, NAMESPACE, NOW)
    assert taken.metadata.owner_references == (stranger, account("new"))


@pytest.mark.parametrize(
    ("identity", "duration", "renew"),
    [("", 15, 5), ("me", 0, 1), ("me", 15, 0), ("me", 15, 7), ("me", 1, 0.5)],
)
def test_lease_durations_that_no_process_could_keep_are_refused(
    identity: str, duration: int, renew: float
) -> None:
    with pytest.raises(Misconfigured):
        LeaseTerms(identity, duration, renew)


@pytest.mark.parametrize(("duration", "renew"), [(15, 5), (24, 8), (3, 1)])
def test_a_dead_holder_is_noticed_within_the_duration_and_two_seconds(duration: int, renew: float) -> None:
    terms = LeaseTerms("me", duration, renew)
    assert terms.poll < 2
    assert terms.renew + terms.poll < terms.duration - terms.margin


def test_no_two_processes_have_the_same_identity() -> None:
    assert len({unique_identity() for _ in range(100)}) == 100


# The decision.


def fresh() -> Election:
    return Election(ME, jitter=lambda: 0.0)


def pause(election: Election, now: float) -> float:
    move = election.next(now)
    assert isinstance(move, ElectionPause)
    return move.seconds


def test_a_candidate_reads_before_it_does_anything() -> None:
    assert fresh().next(100.0) is LeaseAction.LOOK


@pytest.mark.parametrize("found", [None, lease("", "7"), lease("me", "7")])
def test_what_is_missing_free_or_already_ours_is_claimed_at_once(found: Lease | None) -> None:
    election = fresh()
    election.saw(found, 100.0)
    assert election.next(100.0) is LeaseAction.CLAIM
    assert not election.leading


def test_the_lease_of_another_is_read_again_and_again_and_claimed_when_it_was_not_renewed() -> None:
    election = fresh()
    election.saw(lease("other", "7"), 100.0)
    assert election.next(100.0) == ElectionPause(1.5)
    for moment in (101.5, 103.0, 114.9):
        assert election.next(moment) is LeaseAction.LOOK
        election.saw(lease("other", "7"), moment)
    assert pause(election, 114.9) == pytest.approx(0.1)
    assert election.next(115.0) is LeaseAction.CLAIM


def test_any_change_of_the_lease_begins_the_wait_anew() -> None:
    election = fresh()
    election.saw(lease("other", "7"), 100.0)
    election.saw(lease("other", "8"), 114.0)
    assert election.next(115.5) is LeaseAction.LOOK
    election.saw(lease("other", "8"), 115.5)
    assert election.next(128.9) is not LeaseAction.CLAIM
    assert election.next(129.0) is LeaseAction.CLAIM


@pytest.mark.parametrize(("theirs", "waits"), [(60, 60.0), (1, 15.0), (15, 15.0)])
def test_the_longer_of_both_durations_is_respected(theirs: int, waits: float) -> None:
    election = fresh()
    election.saw(lease("other", "7", duration=theirs), 0.0)
    assert election.next(waits - 0.1) is not LeaseAction.CLAIM
    assert election.next(waits) is LeaseAction.CLAIM


def test_a_holder_that_wrote_no_duration_gets_ours() -> None:
    election = fresh()
    election.saw(Lease(spec=LeaseSpec(holder_identity="other")), 0.0)
    assert election.next(14.9) is not LeaseAction.CLAIM
    assert election.next(15.0) is LeaseAction.CLAIM


def test_a_lease_deleted_under_its_holder_is_waited_out() -> None:
    election = fresh()
    election.saw(lease("other", "7"), 100.0)
    election.saw(None, 101.0)
    assert election.next(115.9) is not LeaseAction.CLAIM
    assert election.next(116.0) is LeaseAction.CLAIM


def test_a_leader_counts_its_time_from_before_the_request() -> None:
    election = fresh()
    election.saw(None, 100.0)
    election.wrote(lease("me", "1"), started=100.0)
    assert election.leading
    assert election.deadline == 100.0 + 15 - 1.5
    assert election.next(102.0) == ElectionPause(3.0)
    assert election.next(105.0) is LeaseAction.CLAIM
    election.wrote(lease("me", "2"), started=105.0)
    assert election.deadline == 118.5


def test_a_leader_that_cannot_renew_tries_until_its_deadline_and_then_steps_down() -> None:
    election = fresh()
    election.wrote(lease("me", "1"), started=0.0)
    election.failed(started=5.0, now=5.1)
    assert pause(election, 5.1) == pytest.approx(2.4)
    assert election.next(7.5) is LeaseAction.CLAIM
    election.failed(started=7.5, now=12.5)  # it waited long enough
    assert election.next(12.5) is LeaseAction.CLAIM
    election.failed(started=12.5, now=12.6)
    assert pause(election, 12.6) == pytest.approx(0.9)
    assert election.leading
    election.next(13.5)
    assert not election.leading


def test_an_answer_that_took_longer_than_the_lease_makes_no_leader() -> None:
    election = fresh()
    election.saw(None, 0.0)
    election.wrote(lease("me", "1"), started=0.0)
    assert election.next(20.0) is LeaseAction.CLAIM
    assert not election.leading


def test_a_leader_whose_renewal_was_overtaken_reads_and_goes_on_if_it_is_still_the_holder() -> None:
    election = fresh()
    election.wrote(lease("me", "1"), started=0.0)
    election.overtaken()
    assert election.next(5.0) is LeaseAction.LOOK
    election.saw(lease("me", "2"), 5.1)
    assert election.leading
    assert election.next(5.1) is LeaseAction.CLAIM


def test_a_claim_that_is_refused_without_another_writer_is_not_repeated_at_once() -> None:
    for found, leading in ((lease("", "1"), False), (None, False), (lease("me", "1"), True)):
        election = fresh()
        if leading:
            election.wrote(lease("me", "1"), started=0.0)
        else:
            election.saw(found, 0.0)
        election.overtaken()
        assert election.next(1.0) is LeaseAction.LOOK
        election.saw(found, 1.0)
        assert election.next(1.0) == ElectionPause(1.5)
        assert election.next(2.5) is LeaseAction.CLAIM
        assert election.leading is leading


@pytest.mark.parametrize("found", [None, lease("thief", "2"), lease("", "2")])
def test_a_leader_stops_when_the_lease_is_gone_stolen_or_emptied(found: Lease | None) -> None:
    election = fresh()
    election.wrote(lease("me", "1"), started=0.0)
    election.overtaken()
    election.saw(found, 5.0)
    assert not election.leading


def test_whether_the_lease_may_be_ours_is_remembered_from_the_claim_to_the_next_read() -> None:
    election = fresh()
    assert not election.may_hold
    election.saw(None, 0.0)
    assert not election.may_hold
    assert election.next(0.0) is LeaseAction.CLAIM
    election.failed(0.0, 5.0)
    assert election.may_hold
    election.saw(lease("other", "9"), 6.0)
    assert not election.may_hold


def test_renewals_and_reads_spread_but_never_come_later() -> None:
    late, early = Election(ME, jitter=lambda: 0.0), Election(ME, jitter=lambda: 0.999)
    for election in (late, early):
        election.wrote(lease("me", "1"), started=0.0)
    first, last = early.next(0.0), late.next(0.0)
    assert isinstance(first, ElectionPause)
    assert last == ElectionPause(5.0)
    assert 4.5 <= first.seconds < 5.0


def test_annotations_of_a_holder_are_beside_those_of_others_and_stay_when_it_leaves() -> None:
    terms = LeaseTerms("me", 15, 5, (("stoker.io/shards", "3"),))
    found = lease("other", "7")
    noted = msgspec.structs.replace(found.metadata, annotations={"note": "by hand", "stoker.io/shards": "2"})
    mine = claim_lease(msgspec.structs.replace(found, metadata=noted), terms, NAME, NAMESPACE, NOW)
    assert mine.metadata.annotations == {"note": "by hand", "stoker.io/shards": "3"}
    assert release_lease(mine, NOW).metadata.annotations == mine.metadata.annotations
    assert claim_lease(None, terms, NAME, NAMESPACE, NOW).metadata.annotations == {"stoker.io/shards": "3"}
