"""Whose a change is: facts of admission joined with events of the watch. A real author, or none.

A fact fits an event when both are about the same object (by uid), the request found the
very version that was seen last, and it wants exactly the state that is seen now. For a
`scale` the state now, with the replica count of before, must be the state before. If
facts of two users fit, or none does, the author is unknown. Nothing is guessed.

So that this holds, an event may be asked about only when the watch brought it right
after the version that was seen last. What a list shows may be several changes at once;
whose they are cannot be known, and the caller must not ask.

One thing admission cannot tell: whether the write it saw was carried out. If somebody's
request is refused later, another's identical request for the same version succeeds, and
*its* fact is lost, then the first one fits. Facts are kept only for as long as a batch
can wait, which keeps that window short.

The memory is bounded by `capacity` and `keep`. All facts about one version of one
object come and go together: if one were dropped alone, the other could seem certain.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from stoker.domain.git_objects import blob_of
from stoker.reverser.authors.facts import AuthorFact, RequestUser, ScaleChange
from stoker.reverser.selection.preset import GroupResource
from stoker.reverser.selection.rules import ChangeOperation

CAPACITY = 20_000
KEEP_SECONDS = 120.0
_MAX_FACTS = 32

_FactKey = tuple[GroupResource, str, str]


class ObservedEvent(NamedTuple):
    """One event of a watch, as far as its author matters."""

    kind: GroupResource
    uid: str
    before: str
    """The version of the object that was seen last; empty for one that was never seen."""
    operation: ChangeOperation
    blob: str
    """`facts.blob_name` of the object in the event."""
    before_blob: str = ""
    """The blob id that stands in git for the version seen last; only a `scale` needs it."""
    content: bytes = b""
    """The file as it is written now; only a `scale` needs it."""
    ended_from: str = ""
    """For a deletion that finalizers held up: the version seen last before it was asked for."""


@dataclass(slots=True)
class _VersionFacts:
    """All that is known about requests for one version of one object."""

    since: float
    facts: list[AuthorFact]
    overflown: bool = False


class AuthorAttribution:
    """Remembers facts for a while and answers whose an event is. It is told the time."""

    def __init__(self, *, capacity: int = CAPACITY, keep: float = KEEP_SECONDS) -> None:
        self._capacity = capacity
        self._keep = keep
        self._facts: OrderedDict[_FactKey, _VersionFacts] = OrderedDict()
        self.forgotten = 0
        """Versions whose facts went before their time, because too many came."""

    def __len__(self) -> int:
        return len(self._facts)

    def learn(self, fact: AuthorFact, now: float) -> None:
        """Take a fact, of this replica or of another; the same one twice is once."""
        self.forget(now)
        key = (fact.kind, fact.uid, fact.before)
        known = self._facts.get(key)
        if known is None:
            known = self._facts[key] = _VersionFacts(now, [])
            if len(self._facts) > self._capacity:
                self._facts.popitem(last=False)
                self.forgotten += 1
        if fact in known.facts or known.overflown:
            return
        known.overflown = len(known.facts) >= _MAX_FACTS
        known.facts.append(fact)

    def forget(self, now: float) -> None:
        """Let go of what is too old to be asked about."""
        while self._facts:
            key, oldest = next(iter(self._facts.items()))
            if now - oldest.since <= self._keep:
                return
            del self._facts[key]

    def author_of(self, seen: ObservedEvent, now: float) -> RequestUser | None:
        """Who made the change; None if that is not certain."""
        self.forget(now)
        users: dict[str, RequestUser] = {}
        for version in dict.fromkeys((seen.before, seen.ended_from or seen.before)):
            known = self._facts.get((seen.kind, seen.uid, version))
            if known is None:
                continue
            if known.overflown:
                return None
            for fact in known.facts:
                if fact.is_doubt and fact.operation is seen.operation:
                    return None
                if _matches_event(fact, seen):
                    users.setdefault(fact.user.name, fact.user)
        return next(iter(users.values())) if len(users) == 1 else None


def _matches_event(fact: AuthorFact, seen: ObservedEvent) -> bool:
    """Whether a request for this version of this object is the one that led to the event."""
    if fact.operation is not seen.operation:
        return False
    if fact.replicas is not None:
        return _is_scale_change(seen, fact.replicas)
    # A deletion that had to wait is the one that was asked for, whatever finalizers changed meanwhile.
    return fact.blob == seen.blob or (bool(seen.ended_from) and fact.before == seen.ended_from)


def _is_scale_change(seen: ObservedEvent, replicas: ScaleChange) -> bool:
    """Whether nothing but the count of replicas was changed, and just as it was asked for."""
    before = with_replicas(seen.content, replicas.after, replicas.before)
    return bool(seen.before_blob) and before is not None and _has_blob_id(before, seen.before_blob)


def _has_blob_id(content: bytes, blob: str) -> bool:
    return blob_of(content, digits=len(blob)) == blob


def with_replicas(content: bytes, now: int, instead: int) -> bytes | None:
    """A rendered object with another `spec.replicas`; None if it does not hold this count there."""
    spec = content.find(b"\nspec:\n")
    line = b"\n  replicas: %d\n" % now
    at = content.find(line, spec) if spec >= 0 else -1
    # Every line of `spec` is indented by two at least, so this one is its own member, if it is still in it.
    if at < 0 or re.search(rb"\n[^ \n]", content[spec + len(b"\nspec:") : at]):
        return None
    return content[:at] + b"\n  replicas: %d\n" % instead + content[at + len(line) :]
