"""No change is ever attributed to anybody but the one who made it.

A small API server is played: several users create, change, scale and delete objects, or
ask for it and are refused; a controller writes status; the watch lags and has gaps; facts
come once, twice, late or never. Whatever happens, an author is the true one or none.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from stoker.domain.git_objects import blob_of
from stoker.reverser.authors.attribution import AuthorAttribution, ObservedEvent, with_replicas
from stoker.reverser.authors.commit_identity import commit_author as identity_of
from stoker.reverser.authors.facts import AuthorFact, RequestUser, request_fact
from stoker.reverser.manifest.render import render_object
from stoker.reverser.manifest.sanitize import sanitize
from stoker.reverser.selection.preset import GroupResource
from stoker.reverser.selection.rules import ChangeOperation

KIND = GroupResource("apps", "deployments")


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens."""

    what: str
    name: str
    user: str
    number: int
    refused: bool
    fact: str


@dataclass(slots=True)
class Stored:
    """An event of the server: what became of an object, and by whose request."""

    operation: ChangeOperation
    name: str
    obj: dict[str, Any]
    truth: AuthorFact | None


@dataclass(slots=True)
class Asked:
    """A change that git would get, with its true maker."""

    observed: ObservedEvent
    truth: AuthorFact


@dataclass(slots=True)
class AuthorModel:
    """The server, the watch, and what the reverser has learnt; wrong answers end in an assertion."""

    authors: AuthorAttribution = field(default_factory=AuthorAttribution)
    version: int = 0
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: list[Stored] = field(default_factory=list)
    known: dict[str, tuple[str, str, bytes]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    late: list[AuthorFact] = field(default_factory=list)
    learnt: set[AuthorFact] = field(default_factory=set)
    refused: set[AuthorFact] = field(default_factory=set)
    certain: int = 0

    def run(self, step: Step) -> None:
        if step.what == "watch":
            self.watch()
        elif step.what == "gap":
            self.relist()
        elif step.what == "commit":
            self.commit()
        elif step.what == "late":
            for fact in self.late:
                self.learn(fact)
            self.late = []
        else:
            self.write(step)

    def write(self, step: Step) -> None:
        old = self.objects.get(step.name)
        new = changed(old, step)
        if (old is None) is not (step.what == "create") or (new is not None and new == old):
            return
        fact = None if step.what == "status" else request_fact(request(step, old, new))
        if not step.refused or step.what == "status":
            self.version += 1
            if new is None:
                assert old is not None
                gone = with_version(old, self.version)
                del self.objects[step.name]
                self.events.append(Stored(ChangeOperation.DELETE, step.name, gone, fact))
            else:
                self.objects[step.name] = with_version(new, self.version)
                operation = ChangeOperation.UPDATE if old else ChangeOperation.CREATE
                self.events.append(Stored(operation, step.name, self.objects[step.name], fact))
        if fact is not None:
            if step.refused:
                self.refused.add(fact)
            for _ in range({"once": 1, "twice": 2}.get(step.fact, 0)):
                self.learn(fact)
            if step.fact == "late":
                self.late.append(fact)

    def learn(self, fact: AuthorFact) -> None:
        self.authors.learn(fact, 0.0)
        self.learnt.add(fact)

    def watch(self) -> None:
        """Every event in order, each right after the one before it."""
        for each in self.events:
            uid, version = each.obj["metadata"]["uid"], each.obj["metadata"]["resourceVersion"]
            content = render_object(sanitize(each.obj))
            seen_uid, before, before_blob = "", "", ""
            if each.name in self.known:
                seen_uid, before, old_content = self.known[each.name]
                before_blob = blob_of(old_content)
            changes = each.operation is ChangeOperation.DELETE or before_blob != blob_of(content)
            if (
                changes
                and each.truth is not None
                and (each.operation is ChangeOperation.CREATE or seen_uid == uid)
            ):
                observed = ObservedEvent(
                    KIND,
                    uid,
                    before,
                    each.operation,
                    blob_of(content),
                    before_blob=before_blob,
                    content=content,
                )
                self.asked.append(Asked(observed, each.truth))
            if each.operation is ChangeOperation.DELETE:
                self.known.pop(each.name, None)
            else:
                self.known[each.name] = (uid, version, content)
        self.events = []

    def relist(self) -> None:
        """The watch broke; what happened meanwhile is seen only as a whole, and no webhook is called."""
        self.events = []
        self.known = {
            name: (obj["metadata"]["uid"], obj["metadata"]["resourceVersion"], render_object(sanitize(obj)))
            for name, obj in self.objects.items()
        }

    def commit(self) -> None:
        for each in self.asked:
            self.judge(each)
        self.asked = []

    def judge(self, asked: Asked) -> None:
        observed, truth = asked.observed, asked.truth
        who = self.authors.author_of(observed, 0.0)
        same = {fact for fact in self.learnt if (fact.uid, fact.before) == (observed.uid, observed.before)}
        others = {fact.user.name for fact in same} - {truth.user.name}
        if truth in self.learnt and not others:
            assert who is not None
            assert who.name == truth.user.name  # no other user asked for this version, so it is certain
            self.certain += 1
        if who is not None and who.name != truth.user.name:
            # Only where a refused request wanted the very same, and the fact of the true one is lost.
            assert truth not in self.learnt
            assert any(fact.user == who and wants(fact, observed) for fact in same & self.refused)
            event("the documented case")


def wants(fact: AuthorFact, observed: ObservedEvent) -> bool:
    """Whether the request would have led to the very same state."""
    if fact.replicas is None:
        return fact.blob == observed.blob
    before = with_replicas(observed.content, fact.replicas.after, fact.replicas.before)
    return before is not None and blob_of(before) == observed.before_blob


def changed(old: dict[str, Any] | None, step: Step) -> dict[str, Any] | None:
    """The object as the request wants it; None if it is to be deleted."""
    if step.what == "delete" or (old is None and step.what != "create"):
        return None
    if old is None:
        metadata = {"name": step.name, "uid": f"{step.name}-{step.number}-{step.user}"}
        return {
            "apiVersion": "apps/v1",
            "kind": "D",
            "metadata": metadata,
            "spec": {"image": 0, "replicas": 1},
        }
    new = copy.deepcopy(old)
    if step.what == "set":
        new["spec"]["image"] = step.number
    elif step.what == "both":
        new["spec"] = {"image": step.number, "replicas": step.number}
    elif step.what == "scale":
        new["spec"]["replicas"] = step.number
    else:
        new["status"] = step.number
    return new


def request(step: Step, old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
    resource = {"group": "apps", "version": "v1", "resource": "deployments"}
    fields: dict[str, Any] = {"resource": resource, "userInfo": {"username": step.user}}
    if step.what == "scale":
        assert old is not None
        assert new is not None
        return {
            **fields,
            "operation": "UPDATE",
            "subResource": "scale",
            "object": scale(new),
            "oldObject": scale(old),
        }
    operation = "CREATE" if old is None else "DELETE" if new is None else "UPDATE"
    return {**fields, "operation": operation, "object": new, "oldObject": old}


def scale(obj: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "Scale", "metadata": obj["metadata"], "spec": {"replicas": obj["spec"]["replicas"]}}


def with_version(obj: dict[str, Any], version: int) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}


WRITES = ("create", "set", "set", "both", "both", "scale", "scale", "delete", "status")
STEPS = (*WRITES, *WRITES, "watch", "commit", "gap", "late")
BEGIN = Step("create", "a", "alice", 0, False, "once")
END = (Step("create", "c", "carol", 0, False, "once"), Step("watch", "", "", 0, False, ""))


def history(seed: int, *, refusals: bool) -> list[Step]:
    """A long one, of few words, so that unlikely neighbours meet."""
    rng = random.Random(seed)  # noqa: S311 a history, not a secret
    middle = [
        Step(
            what=rng.choice(STEPS),
            name=rng.choice("aaab"),
            user=rng.choice(("alice", "bob")),
            number=rng.randrange(2),
            refused=refusals and rng.random() < 0.4,
            fact=rng.choice(("once", "once", "twice", "late", "lost", "lost")),
        )
        for _ in range(60)
    ]
    return [BEGIN, *middle, *END]


@given(st.integers(0, 1 << 48))
@settings(max_examples=600)
def test_no_change_is_attributed_to_another_user(seed: int) -> None:
    model = AuthorModel()
    for step in history(seed, refusals=True):
        model.run(step)
    model.commit()
    assert model.certain, "no other change is beside the last one"
    event(f"certain authors: {min(model.certain, 5)}")


@given(st.integers(0, 1 << 48))
@settings(max_examples=200)
def test_where_every_request_succeeds_no_loss_of_facts_makes_an_author_wrong(seed: int) -> None:
    model = AuthorModel()
    for step in history(seed, refusals=False):
        model.run(step)
        for asked in model.asked:
            who = model.authors.author_of(asked.observed, 0.0)
            assert who is None or who.name == asked.truth.user.name


names = st.text(st.characters(), min_size=1, max_size=80) | st.text("aA_.@-", min_size=1, max_size=8)


@given(st.lists(names | names.map(lambda name: f"{name}@example.com"), min_size=2, max_size=20, unique=True))
def test_distinct_users_have_distinct_addresses_whatever_their_case(users: list[str]) -> None:
    addresses = [identity_of(RequestUser(each)).email for each in users]
    assert len({each.lower() for each in addresses}) == len(users)
    assert all(each.isascii() and each.isprintable() and each.count("@") == 1 for each in addresses)
