"""Attribution of a change: its real author, or none."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.domain.git_objects import blob_of
from stoker.reverser.authors.attribution import AuthorAttribution, ObservedEvent, with_replicas
from stoker.reverser.authors.facts import AuthorFact, RequestUser, ScaleChange
from stoker.reverser.manifest.render import render_object
from stoker.reverser.selection.preset import GroupResource
from stoker.reverser.selection.rules import ChangeOperation

KIND = GroupResource("apps", "deployments")
CREATE, UPDATE, DELETE = ChangeOperation.CREATE, ChangeOperation.UPDATE, ChangeOperation.DELETE
ALICE, BOB = RequestUser("alice"), RequestUser("bob")


def fact(
    user: RequestUser = ALICE,
    *,
    uid: str = "u",
    before: str = "7",
    operation: ChangeOperation = UPDATE,
    blob: str = "new",
    kind: GroupResource = KIND,
    replicas: ScaleChange | None = None,
) -> AuthorFact:
    return AuthorFact(kind, uid, before, operation, user, blob, replicas)


def seen(
    uid: str = "u", before: str = "7", operation: ChangeOperation = UPDATE, blob: str = "new", **more: Any
) -> ObservedEvent:
    return ObservedEvent(KIND, uid, before, operation, blob, **more)


def author(observed: ObservedEvent, *facts: AuthorFact) -> RequestUser | None:
    authors = AuthorAttribution()
    for each in facts:
        authors.learn(each, 0.0)
    return authors.author_of(observed, 1.0)


@pytest.mark.parametrize(
    ("observed", "facts", "who"),
    [
        (seen(), [fact()], ALICE),
        (seen(), [], None),
        (seen(), [fact(), fact()], ALICE),
        (seen(), [fact(), fact(ALICE._replace(groups=("x",)))], ALICE),
        (seen(), [fact(), fact(BOB)], None),
        (seen(), [fact(), fact(BOB, blob="other")], ALICE),
        (seen(), [fact(), fact(BOB, before="6")], ALICE),
        (seen(), [fact(uid="v")], None),
        (seen(), [fact(before="6")], None),
        (seen(), [fact(blob="other")], None),
        (seen(), [fact(kind=GroupResource("", "deployments"))], None),
        (seen(), [fact(operation=CREATE, before="")], None),
        (seen(before="", operation=CREATE), [fact(before="", operation=CREATE)], ALICE),
        (seen(before="", operation=CREATE), [fact(before="", operation=CREATE, blob="other")], None),
        (seen(operation=DELETE), [fact(operation=DELETE)], ALICE),
        (seen(operation=DELETE), [fact()], None),
        (seen(), [fact(operation=DELETE)], None),
    ],
)
def test_a_fact_fits_the_event_that_it_led_to_and_no_other(
    observed: ObservedEvent, facts: list[AuthorFact], who: RequestUser | None
) -> None:
    for order in (facts, facts[::-1]):
        found = author(observed, *order)
        assert (found and found.name) == (who and who.name)


def test_a_deletion_that_finalizers_held_up_belongs_to_the_user_who_asked_for_it() -> None:
    gone = seen(before="9", operation=DELETE, blob="without finalizers", ended_from="7")
    assert author(gone, fact(operation=DELETE, blob="with finalizers")) == ALICE
    freeing = fact(BOB, before="9", blob="without finalizers")
    assert author(gone, fact(operation=DELETE), freeing) == ALICE
    assert author(gone, freeing) is None
    again = fact(BOB, before="9", operation=DELETE, blob="without finalizers")
    assert author(gone, fact(operation=DELETE), again) is None


def deployment(replicas: int, image: str = "a") -> bytes:
    return render_object(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"annotations": {"note": "spec:\n  replicas: 3\n"}},
            "spec": {
                "image": image,
                "replicas": replicas,
                "list": [{"replicas": 3}],
                "inner": {"replicas": 3},
            },
            "text": "\n  replicas: 3\n",
        }
    )


def scaled(now: bytes, before: bytes, digits: int = 40) -> ObservedEvent:
    return seen(blob=blob_of(now), before_blob=blob_of(before, digits=digits), content=now)


@pytest.mark.parametrize("digits", [40, 64])
def test_scaling_fits_when_nothing_but_the_count_changed(digits: int) -> None:
    up = fact(blob="", replicas=ScaleChange(2, 3))
    assert author(scaled(deployment(3), deployment(2), digits), up) == ALICE
    assert author(scaled(deployment(4), deployment(2), digits), up) is None
    assert author(scaled(deployment(3), deployment(1), digits), up) is None
    assert author(scaled(deployment(3, "b"), deployment(2), digits), up) is None
    assert (
        author(scaled(deployment(3), deployment(2), digits), up, fact(BOB, blob=blob_of(deployment(3))))
        is None
    )
    assert author(seen(blob=blob_of(deployment(3)), content=deployment(3)), up) is None


def test_another_count_is_in_the_specs_own_place_only() -> None:
    assert with_replicas(deployment(3), 3, 2) == deployment(2)
    assert with_replicas(deployment(2), 3, 1) is None
    assert with_replicas(render_object({"kind": "X", "zone": {"replicas": 3}}), 3, 2) is None
    assert with_replicas(render_object({"spec": {"a": 1}, "zone": {"replicas": 3}}), 3, 2) is None
    assert with_replicas(render_object({"kind": "X", "spec": {"replicas": 0}}), 0, 5) == (
        b"kind: X\nspec:\n  replicas: 5\n"
    )


def test_a_fact_is_kept_for_a_while_and_not_longer() -> None:
    authors = AuthorAttribution(keep=10.0)
    authors.learn(fact(), 0.0)
    assert authors.author_of(seen(), 10.0) == ALICE
    assert authors.author_of(seen(), 10.1) is None
    assert len(authors) == 0


def test_the_memory_is_bounded_and_facts_about_one_version_go_together() -> None:
    authors = AuthorAttribution(capacity=2)
    authors.learn(fact(uid="a"), 0.0)
    authors.learn(fact(uid="b"), 0.0)
    authors.learn(fact(BOB, uid="a"), 0.0)
    authors.learn(fact(uid="c"), 0.0)
    assert len(authors) == 2
    assert authors.forgotten == 1
    assert authors.author_of(seen(uid="a"), 0.0) is None
    assert authors.author_of(seen(uid="c"), 0.0) == ALICE


def test_too_many_requests_for_one_version_make_its_author_unknown() -> None:
    authors = AuthorAttribution()
    authors.learn(fact(), 0.0)
    for n in range(1000):
        authors.learn(fact(blob=str(n)), 0.0)
    assert authors.author_of(seen(), 0.0) is None
    assert len(authors) == 1


def test_a_late_fact_still_helps_while_no_writer_has_asked() -> None:
    authors = AuthorAttribution()
    assert authors.author_of(seen(), 0.0) is None
    authors.learn(fact(), 0.5)
    assert authors.author_of(seen(), 1.0) == ALICE
