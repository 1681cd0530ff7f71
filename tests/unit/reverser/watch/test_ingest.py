"""An object of a list or a watch, on its way to the outboxes of its destinations."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.domain.refs import RepoUrl
from stoker.kube.client.resources import ApiResource
from stoker.kube.client.served_kinds import KindCatalog, ServedResource, prefer_first
from stoker.kube.watch.store import ObjectKey as Name
from stoker.reverser.authors.facts import object_blob_id
from stoker.reverser.destinations import BranchKey, RepoConfigRef, WritableDestination
from stoker.reverser.manifest.named_secrets import ALL_FOR_NOW, SecretRef
from stoker.reverser.manifest.secret_policy import SecretPolicy
from stoker.reverser.selection.labels import LabelMatcher, SelectorRequirement
from stoker.reverser.selection.rules import (
    ChangeOperation,
    DestinationRef,
    RuleRef,
    RuleResource,
    SelectionRule,
)
from stoker.reverser.selection.selection import WatchedKind, select_objects
from stoker.reverser.watch.ingest import DestinationOutboxes, IngestContext, ObjectIngest
from stoker.reverser.writer.batch import PendingFileChange
from stoker.reverser.writer.outbox import DestinationOutbox
from stoker_testkit.manual_clock import ManualClock

A, B = DestinationRef("s", "a"), DestinationRef("s", "b")
MAPS = ApiResource("", "v1", "configmaps", "ConfigMap", namespaced=True)
SECRETS = ApiResource("", "v1", "secrets", "Secret", namespaced=True)
VERBS = frozenset({"list", "watch"})


def outbox(ref: DestinationRef, **more: Any) -> DestinationOutbox:
    place, url = BranchKey("git.example.com/a", "main"), RepoUrl("https://git.example.com/a")
    box = DestinationOutbox(
        WritableDestination(ref, "uid", RepoConfigRef("s", "r"), url, place, ref.name, **more),
        ManualClock(),
        wake=lambda: None,
    )
    box.open({}, 40)
    return box


def rule(to: DestinationRef, resource: str = "configmaps", **more: Any) -> SelectionRule:
    return SelectionRule(
        RuleRef("WatchRule", "shop", to.name), to, (RuleResource.of(resource),), namespaced=True, **more
    )


def noticer(
    *rules: SelectionRule, resource: ApiResource = MAPS, own: tuple[SecretRef, ...] = ()
) -> ObjectIngest:
    catalog = KindCatalog(tuple(prefer_first([ServedResource(each, VERBS) for each in (MAPS, SECRETS)])))
    return ObjectIngest(
        WatchedKind(resource), IngestContext(select_objects(rules or (rule(A),), catalog), own)
    )


def obj(version: str = "1", name: str = "prices", **more: Any) -> bytes:
    meta = {"name": name, "namespace": "shop", "uid": "u-1", "resourceVersion": version}
    metadata = {**meta, **more.pop("metadata", {})}
    return msgspec.json.encode({"metadata": metadata, "data": {"a": "1"}, **more})


def taken(box: DestinationOutbox) -> list[PendingFileChange]:
    return [change for plan in box.batcher.take() for change in plan.changes]


def test_a_list_item_without_its_type_gets_it_and_no_author_is_asked_for() -> None:
    box = outbox(A)
    seen = noticer().notice(obj(), None, {A: box}, as_event=False)
    (change,) = taken(box)
    assert change.content is not None
    assert change.content.startswith(b"apiVersion: v1\nkind: ConfigMap\n")
    assert change.observed is None
    assert (seen.taken, seen.version) == ((A,), "1")


def test_an_event_carries_the_version_before_it_and_the_id_of_the_whole_object() -> None:
    box, notices = outbox(A), noticer()
    before = notices.notice(obj("1"), None, {A: box}, as_event=True)
    notices.notice(obj("2", data={"a": "2"}), before, {A: box}, as_event=True)
    first, second = (change.observed for change in box.batcher._waiting)
    assert first is not None
    assert second is not None
    assert (first.operation, first.before) == (ChangeOperation.CREATE, "")
    assert (second.operation, second.before) == (ChangeOperation.UPDATE, "1")
    whole = msgspec.json.decode(obj("2", data={"a": "2"}))
    assert second.blob == object_blob_id({"apiVersion": "v1", "kind": "ConfigMap", **whole})


def test_one_object_goes_to_all_destinations_that_take_it() -> None:
    boxes = {A: outbox(A), B: outbox(B)}
    noticer(rule(A), rule(B)).notice(obj(), None, boxes, as_event=False)
    assert [change.path for box in boxes.values() for change in taken(box)] == [
        "a/core/v1/configmaps/shop/prices.yaml",
        "b/core/v1/configmaps/shop/prices.yaml",
    ]


def test_an_object_that_is_being_deleted_is_not_written_any_more() -> None:
    box, notices = outbox(A), noticer()
    before = notices.notice(obj("1"), None, {A: box}, as_event=True)
    taken(box)
    ending = notices.notice(
        obj("2", data={"a": "last"}, metadata={"deletionTimestamp": "2026"}), before, {A: box}, as_event=True
    )
    later = notices.notice(obj("3", metadata={"deletionTimestamp": "2026"}), ending, {A: box}, as_event=True)
    assert taken(box) == []
    assert (later.version, later.ended_from) == ("3", "1")
    notices.gone(Name("shop", "prices"), "u-1", later, {A: box})
    (change,) = taken(box)
    assert change.content is None
    assert change.observed is not None
    assert (change.observed.before, change.observed.ended_from) == ("3", "1")


def test_an_object_that_loses_its_label_loses_its_file() -> None:
    labels = LabelMatcher((SelectorRequirement("tier", "In", frozenset({"web"})),))
    box, notices = outbox(A), noticer(rule(A, labels=labels))
    before = notices.notice(obj("1", metadata={"labels": {"tier": "web"}}), None, {A: box}, as_event=True)
    taken(box)
    after = notices.notice(obj("2", metadata={"labels": {"tier": "db"}}), before, {A: box}, as_event=True)
    (change,) = taken(box)
    assert (change.operation, change.content, after.taken) == (ChangeOperation.DELETE, None, ())
    assert change.observed is not None
    assert change.observed.operation is ChangeOperation.UPDATE


@pytest.mark.parametrize(("prune", "goes"), [("Always", True), ("OnEvent", True), ("Never", False)])
def test_a_deletion_that_was_seen_follows_the_prune_policy(prune: str, goes: bool) -> None:
    box, notices = outbox(A, prune=prune), noticer()
    seen = notices.notice(obj(), None, {A: box}, as_event=False)
    taken(box)
    notices.gone(Name("shop", "prices"), "u-1", seen, {A: box})
    assert bool(taken(box)) is goes
    assert bool(box.unclaimed) is not goes


def test_what_a_list_does_not_show_any_more_is_left_to_the_sweep() -> None:
    box, notices = outbox(A), noticer()
    seen = notices.notice(obj(), None, {A: box}, as_event=False)
    taken(box)
    notices.vanished(Name("shop", "prices"), seen, {A: box})
    assert taken(box) == []
    assert box.to_be_swept
    assert box.unclaimed == {"a/core/v1/configmaps/shop/prices.yaml"}


def test_an_object_that_cannot_be_rendered_is_noted_and_its_file_stays() -> None:
    deep: Any = "end"
    for _ in range(300):
        deep = {"a": deep}
    box, notices = outbox(A), noticer()
    seen = notices.notice(obj(data=deep), None, {A: box}, as_event=False)
    assert taken(box) == []
    assert list(box.unwritten) == ["a/core/v1/configmaps/shop/prices.yaml"]
    assert seen.taken == (A,), "it lives, so its file is no orphan"


def test_noise_goes_nowhere() -> None:
    box = outbox(A)
    seen = noticer().notice(obj(name="kube-root-ca.crt"), None, {A: box}, as_event=False)
    assert (taken(box), seen.taken) == ([], ())


def test_a_secret_is_written_as_each_destination_wants_it() -> None:
    boxes: DestinationOutboxes = {
        A: outbox(A, policy=SecretPolicy.INCLUDE),
        B: outbox(B, policy=SecretPolicy.REDACT),
    }
    notices = noticer(rule(A, "secrets"), rule(B, "secrets"), resource=SECRETS)
    seen = notices.notice(obj(data={"word": "aGlkZGVu"}), None, boxes, as_event=True)
    (clear,), (redacted,) = taken(boxes[A]), taken(boxes[B])
    assert b"aGlkZGVu" in (clear.content or b"")
    assert b"aGlkZGVu" not in (redacted.content or b"")
    assert clear.observed is not None
    assert redacted.observed is not None
    assert clear.observed.blob == redacted.observed.blob, "an author is found by all of the object"
    assert seen.blob == clear.observed.blob


def test_the_reversers_own_credentials_are_withheld() -> None:
    box = outbox(A, policy=SecretPolicy.INCLUDE)
    notices = noticer(rule(A, "secrets"), resource=SECRETS, own=(SecretRef("shop", "login"),))
    assert notices.notice(obj(name="login"), None, {A: box}, as_event=True).taken == ()
    assert taken(box) == []


def test_an_excluded_secret_belongs_nowhere_so_an_old_file_of_it_is_swept() -> None:
    box = outbox(A, policy=SecretPolicy.EXCLUDE)
    notices = noticer(rule(A, "secrets"), resource=SECRETS)
    assert notices.notice(obj(), None, {A: box}, as_event=True).taken == ()


def test_a_destination_that_joins_later_is_seeded_without_disturbing_others() -> None:
    boxes = {A: outbox(A)}
    notices = noticer(rule(A), rule(B))
    seen = notices.notice(obj(), None, boxes, as_event=False)
    late = outbox(B)
    taken(boxes[A])
    notices.seed(obj(), seen, {B: late})
    assert [change.path for change in taken(late)] == ["b/core/v1/configmaps/shop/prices.yaml"]
    assert taken(boxes[A]) == []
    assert set(seen.taken) == {A, B}


def test_a_secret_is_left_as_it_is_until_it_is_known_which_ones_are_named() -> None:
    box = outbox(A, policy=SecretPolicy.INCLUDE)
    path = "a/core/v1/secrets/shop/prices.yaml"
    box.open({path: "0" * 40}, 40)
    unknown = noticer(rule(A, "secrets"), resource=SECRETS, own=(SecretRef("shop", ALL_FOR_NOW),))
    before = unknown.notice(obj(), None, {A: box}, as_event=True)
    assert not taken(box)
    assert "status.secretNames" in box.unwritten[path]
    assert path not in box.unclaimed, "it is no orphan"
    # Published: what is named leaves git, everything else is written.
    known = noticer(rule(A, "secrets"), resource=SECRETS, own=(SecretRef("shop", "key"),))
    known.seed(obj(), before, {A: box})
    (change,) = taken(box)
    assert change.content is not None
    assert box.files[path] != "0" * 40


def test_a_secret_of_another_namespace_is_written_meanwhile() -> None:
    box = outbox(A, policy=SecretPolicy.INCLUDE)
    own = (SecretRef("bakery", ALL_FOR_NOW),)
    noticer(rule(A, "secrets"), resource=SECRETS, own=own).notice(obj(), None, {A: box}, as_event=True)
    assert len(taken(box)) == 1
