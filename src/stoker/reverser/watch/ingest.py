"""Turn one object of a list or a watch into file changes in the outboxes of its destinations.

`object_watch` calls it for every object, so this is the hot path. An object is decoded once, rendered once
for all destinations (only Secrets differ by policy), compared by blob id, and dropped. A small `SeenObject`
stays in memory: the destinations of the object and its resource version, by which the author of the next
change is found. Ingest never waits, and it never raises because of an object's content: an object that cannot
be written is recorded in the outbox and does not delay other objects.

An object with a deletionTimestamp is not written any more; its file is deleted when the object is gone. An
object that no rule selects any more loses its file only if `Selection.deletes` allows it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import msgspec

from stoker.domain.errors import Stalled, StokerError
from stoker.domain.git_objects import blob_of
from stoker.domain.reasons import Reason
from stoker.kube.watch.store import ObjectKey as Name
from stoker.reverser.authors.attribution import ObservedEvent
from stoker.reverser.authors.facts import object_blob_id
from stoker.reverser.manifest.named_secrets import SecretRef, why_undecided
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.manifest.render import render_object
from stoker.reverser.manifest.sanitize import sanitize
from stoker.reverser.manifest.secret_policy import (
    SecretPolicy,
    UnchangedSecret,
    WithheldSecret,
    is_secret,
    never_written_reason,
    object_content,
)
from stoker.reverser.selection.labels import ObjectLabels
from stoker.reverser.selection.noise import noise_reason
from stoker.reverser.selection.preset import GroupResource
from stoker.reverser.selection.rules import ChangeOperation, DestinationRef
from stoker.reverser.selection.selection import NO_LABELS, Selection, WatchedKind
from stoker.reverser.writer.outbox import DestinationOutbox

DestinationOutboxes = Mapping[DestinationRef, DestinationOutbox]

_decoder = msgspec.json.Decoder()
_NO_DESTINATIONS: tuple[DestinationRef, ...] = ()


class SeenObject:
    """The memory of one living object. There is one per object, so it must stay small."""

    __slots__ = ("blob", "ended_from", "taken", "version")

    def __init__(
        self,
        taken: tuple[DestinationRef, ...] = _NO_DESTINATIONS,
        version: str = "",
        blob: str = "",
        ended_from: str = "",
    ) -> None:
        self.taken = taken
        """The destinations of the object. Objects with equal destinations share one tuple."""
        self.version = version
        self.blob = blob
        """`facts.object_blob_id` of the object, set only where none of its files has that id."""
        self.ended_from = ended_from
        """The resource version before its deletion was requested; empty if no deletion was requested."""

    def fill(self, other: SeenObject) -> None:
        """Take over the values of another memory of the same object."""
        self.taken, self.version = other.taken, other.version
        self.blob, self.ended_from = other.blob, other.ended_from


class IngestContext:
    """The selection and its lookups, replaced as a whole when rules or kinds change."""

    def __init__(
        self,
        selection: Selection,
        own: Collection[SecretRef] = (),
        namespace_labels: Callable[[str], ObjectLabels | None] = lambda _: None,
    ) -> None:
        self.selection = selection
        self.own = own
        self.namespace_labels = namespace_labels
        self.kinds: dict[tuple[str, ...], str] = {
            (each.group, each.version, each.plural): each.kind for each in selection.kinds
        }
        self._shared: dict[tuple[DestinationRef, ...], tuple[DestinationRef, ...]] = {}

    def shared(self, taken: Iterable[DestinationRef]) -> tuple[DestinationRef, ...]:
        """Return one shared tuple for all equal sets of destinations."""
        refs = tuple(taken)
        return self._shared.setdefault(refs, refs) if refs else _NO_DESTINATIONS


class ObjectIngest:
    """Processes the objects of one list and watch."""

    def __init__(self, watched: WatchedKind, around: IngestContext) -> None:
        self.watched = watched
        self.around = around
        resource = watched.resource
        self._kind = GroupResource(resource.group, resource.plural)
        self._key = (resource.group, resource.version, resource.plural)
        self._head = {"apiVersion": resource.api_version, "kind": resource.kind}

    def read(self, raw: bytes) -> dict[str, Any]:
        """Decode an object and add its apiVersion and kind, which lists of built-in kinds omit."""
        obj: dict[str, Any] = _decoder.decode(raw)
        return obj if "kind" in obj else {**self._head, **obj}

    def notice(
        self, raw: bytes, before: SeenObject | None, outboxes: DestinationOutboxes, *, as_event: bool
    ) -> SeenObject:
        """Process the current state of an object; `before` is its memory under the same uid."""
        obj = self.read(raw)
        metadata = obj["metadata"]
        version = metadata.get("resourceVersion") or ""
        if metadata.get("deletionTimestamp"):
            if before is None:
                return SeenObject(self._taken(obj, metadata), version, ended_from=version)
            return SeenObject(before.taken, version, before.blob, before.ended_from or before.version)
        step = None
        if as_event:
            operation = ChangeOperation.CREATE if before is None else ChangeOperation.UPDATE
            uid, seen_last = metadata.get("uid") or "", before.version if before else ""
            step = ObservedEvent(self._kind, uid, seen_last, operation, "")
        return self._take(obj, before.taken if before else _NO_DESTINATIONS, outboxes, step, version)

    def seed(self, raw: bytes, seen: SeenObject, outboxes: DestinationOutboxes) -> None:
        """Process an object that is known already, for destinations that are new to it."""
        obj = self.read(raw)
        if obj["metadata"].get("deletionTimestamp"):
            return
        others = tuple(ref for ref in seen.taken if ref not in outboxes)
        now = self._take(obj, seen.taken, outboxes, None, seen.version)
        seen.taken = self.around.shared(dict.fromkeys((*others, *now.taken)))
        seen.blob = now.blob or seen.blob

    def skip(self, name: Name, seen: SeenObject, outboxes: DestinationOutboxes) -> None:
        """Mark an object whose event brings another version: these outboxes lack the state before it."""
        for outbox in (outboxes[ref] for ref in seen.taken if ref in outboxes):
            if self.watched in outbox.behind:
                with contextlib.suppress(StokerError):  # it has no path; it is reported when its event comes
                    outbox.skipped.add(outbox.path_of(ManifestKey(*self._key, *name)))

    def gone(self, name: Name, uid: str, seen: SeenObject, outboxes: DestinationOutboxes) -> None:
        """Process a deletion that the watch has shown."""
        key = ManifestKey(*self._key, *name)
        for ref in seen.taken:
            outbox = outboxes.get(ref)
            if outbox is None:
                continue
            path = outbox.path_of(key)
            if outbox.destination.prune == "Never" or not self._deletes(key, ref):
                outbox.leave(path)
                continue
            blob = seen.blob or outbox.known(path) or ""
            step = ObservedEvent(self._kind, uid, seen.version, ChangeOperation.DELETE, blob)
            outbox.drop(key, path, step._replace(ended_from=seen.ended_from))

    def vanished(self, name: Name, seen: SeenObject, outboxes: DestinationOutboxes) -> None:
        """Process an object that a list no longer shows. No event showed its deletion: the sweep decides."""
        key = ManifestKey(*self._key, *name)
        for ref in seen.taken:
            outbox = outboxes.get(ref)
            if outbox is not None:
                outbox.leave(outbox.path_of(key))

    def lost(self, name: Name, outboxes: DestinationOutboxes, *, as_event: bool) -> None:
        """Process the end of an object that was never readable; `as_event` if the watch showed it."""
        self.forgive(name, outboxes)
        key = ManifestKey(*self._key, *name)
        for ref, outbox in outboxes.items():
            with contextlib.suppress(StokerError):  # it has no path, and so no file
                path = outbox.path_of(key)
                if not as_event or outbox.destination.prune == "Never" or not self._deletes(key, ref):
                    outbox.leave(path)
                else:
                    outbox.drop(key, path, None)  # without the object no author can be found

    def forgive(self, name: Name, outboxes: DestinationOutboxes) -> None:
        """Clear the refusal of an object that had no path, because it is gone or can be read now."""
        for outbox in outboxes.values():
            if outbox.unwritten:
                outbox.unwritten.pop(str(ManifestKey(*self._key, *name)), None)

    def _take(
        self,
        obj: dict[str, Any],
        before: tuple[DestinationRef, ...],
        outboxes: DestinationOutboxes,
        step: ObservedEvent | None,
        version: str,
    ) -> SeenObject:
        metadata = obj["metadata"]
        key = ManifestKey(*self._key, metadata.get("namespace") or "", metadata["name"])
        taken, blob = self._taken(obj, metadata), ""
        if taken:
            taken, blob = self._write(obj, key, taken, outboxes, step)
        for ref in before:
            outbox = outboxes.get(ref)
            if outbox is not None and ref not in taken:
                self._left(key, ref, outbox, step and step._replace(blob=object_blob_id(obj)))
        return SeenObject(taken, version, blob)

    def _write(
        self,
        obj: dict[str, Any],
        key: ManifestKey,
        taken: tuple[DestinationRef, ...],
        outboxes: DestinationOutboxes,
        step: ObservedEvent | None,
    ) -> tuple[tuple[DestinationRef, ...], str]:
        """Put the object into the outboxes.

        Return its destinations without those that withhold it, and its blob id if no file has that id.
        """
        plain: bytes | None = None
        whole, unlike = "", False
        withheld: list[DestinationRef] = []
        secret = is_secret(key)
        for ref in taken:
            outbox = outboxes.get(ref)
            if outbox is None:
                continue
            path = str(key)
            try:
                path = outbox.path_of(key)
                content = self._secret(obj, key, path, outbox) if secret else None
                if content is None:
                    content = plain = plain or render_object(sanitize(obj))
            except StokerError as error:
                outbox.refuse(path, error.message)
                if path == str(key):  # it can have no file at all
                    withheld.append(ref)
                continue
            if isinstance(content, WithheldSecret):
                withheld.append(ref)
                continue
            blob = (
                content.blob
                if isinstance(content, UnchangedSecret)
                else blob_of(content, digits=outbox.digits)
            )
            if content is plain and outbox.digits == 40:
                whole = blob
            else:  # the file differs from the object: attribution needs the object's own id
                whole, unlike = whole or object_blob_id(obj), True
            if step is not None:
                step = step._replace(blob=whole)
            outbox.put(key, path, content, blob, self.watched, step)
        if withheld:
            taken = self.around.shared(ref for ref in taken if ref not in withheld)
        return taken, whole if unlike else ""

    def _secret(
        self, obj: dict[str, Any], key: ManifestKey, path: str, outbox: DestinationOutbox
    ) -> bytes | UnchangedSecret | WithheldSecret | None:
        """Return the content of a Secret by policy; None for all of it. Raises while that is undecided."""
        policy, why = outbox.destination.policy, why_undecided(key.namespace, self.around.own)
        if why is not None and policy is not SecretPolicy.EXCLUDE:
            raise Stalled(why, reason=Reason.WAITING_DEPENDENCIES)
        if policy is SecretPolicy.INCLUDE:
            return None
        return object_content(obj, key, path, policy=policy, sealer=outbox.sealer)

    def _taken(self, obj: dict[str, Any], metadata: dict[str, Any]) -> tuple[DestinationRef, ...]:
        around = self.around
        namespace = metadata.get("namespace") or ""
        key = ManifestKey(*self._key, namespace, metadata["name"])
        labels = metadata.get("labels") or NO_LABELS
        taken = around.selection.taken_by(key, labels, around.namespace_labels(namespace))
        if (
            not taken
            or noise_reason(obj, key) is not None
            or never_written_reason(obj, key, around.own) is not None
        ):
            return _NO_DESTINATIONS
        return around.shared(taken)

    def _left(
        self, key: ManifestKey, ref: DestinationRef, outbox: DestinationOutbox, step: ObservedEvent | None
    ) -> None:
        path = outbox.path_of(key)
        if outbox.destination.prune == "Never" or not self._deletes(key, ref):
            outbox.leave(path)
        elif step is None and outbox.destination.prune != "Always":
            outbox.leave(path)  # no event showed it leaving the selection
        else:
            outbox.drop(key, path, step)

    def _deletes(self, key: ManifestKey, ref: DestinationRef) -> bool:
        return self.around.selection.deletes(key, ref)
