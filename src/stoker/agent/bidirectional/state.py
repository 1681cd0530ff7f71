"""What became of a gateway's own changes, written down beside the ledger.

For each live path: the content that git was said to have, or that it does not take and
why; and the set that is on its way. Contents are named as `holds.id_of` does, and a file
that is gone by an empty word. It is only ever a saving of work: what is lost with it is sent
once more, and git says that it has it. What cannot be read is therefore taken for empty.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from stoker.domain.intent.annotation_requests import PlanApproval
from stoker.domain.protocol import ChangeSetReply, ChangeSetResult
from stoker.engine.layout.protected_paths import STATE
from stoker.fs.data_folder import CREATE, DataFolder, open_regular, write_all
from stoker.fs.lock import state_folder, unusable_folder_error

NAME = "captured.json"
MAX_STATE_BYTES = 16 << 20
_NEW = f"{NAME}.new"
_STATE_VERSION = 1


@dataclass(frozen=True, slots=True)
class SentChanges:
    """A set on its way."""

    id: str
    files: Mapping[str, str] = field(default_factory=dict)
    """Live paths, each with what lies there."""
    approvals: frozenset[str] = frozenset()
    """The approvals that released its deletions; a set that did not arrive gives them back."""


@dataclass(frozen=True, slots=True)
class RefusedChange:
    blob: str
    why: str


@dataclass(frozen=True, slots=True)
class CaptureState:
    """The memory, as a value."""

    settings: str = ""
    """What may flow back, and which commit is there: with another, what was refused is asked again."""
    recorded: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, RefusedChange] = field(default_factory=dict)
    sent: SentChanges | None = None
    last_id: str = ""
    over: str = ""
    """The set with which the last request ended, as the controller calls it."""
    approvals_used: frozenset[str] = frozenset()
    """Approvals of deletions that were sent and are still given: they count once."""

    def unused(self, given: Collection[PlanApproval]) -> frozenset[str]:
        """The digests of the plans whose approval was not used yet."""
        return frozenset(one.digest for one in given if one.text not in self.approvals_used)

    def approved_by(self, given: Collection[PlanApproval]) -> CaptureState:
        """Without the approvals that are given no longer: they may be given again."""
        used = self.approvals_used & {one.text for one in given}
        return self if used == self.approvals_used else replace(self, approvals_used=used)

    def answered(self, answer: ChangeSetReply | None) -> CaptureState:
        """With what the controller says of the set that is on its way; the same if it says nothing of it.

        Where a request is over, what was refused until then is asked again.
        """
        if answer is None:
            return self
        if answer.over not in ("", self.over):
            return replace(self, refused={}, over=answer.over).answered(answer)
        if self.sent is None or answer.id != self.sent.id:
            return self
        none = answer.result is ChangeSetResult.REFUSED
        out = {path: blob for path, blob in self.sent.files.items() if none or path in answer.refused}
        why = answer.message or "the controller does not take it"
        taken = {path: blob for path, blob in self.sent.files.items() if path not in out}
        return replace(
            self,
            recorded={**_drop_paths(self.recorded, out), **taken},
            refused={
                **_drop_paths(self.refused, taken),
                **{path: RefusedChange(blob, why) for path, blob in out.items() if answer.id != answer.over},
            },
            sent=None,
        )

    def sending(self, sent: SentChanges, approvals: frozenset[str] = frozenset()) -> CaptureState:
        """With a set that is about to go, and the approvals that released its deletions."""
        used = self.approvals_used | approvals
        return replace(self, sent=replace(sent, approvals=approvals), last_id=sent.id, approvals_used=used)

    def unsent(self, set_id: str) -> CaptureState:
        """It did not go, or did not arrive; its id is not used again."""
        if self.sent is None or self.sent.id != set_id:
            return self
        return replace(self, sent=None, approvals_used=self.approvals_used - self.sent.approvals)

    def knowing(self, changed: Mapping[str, str], undone: Collection[str] = ()) -> CaptureState:
        """Without what is no longer a change, or another one; what was taken back git still has."""
        recorded = {
            path: blob for path, blob in self.recorded.items() if changed.get(path) == blob or path in undone
        }
        refused = {path: it for path, it in self.refused.items() if changed.get(path) == it.blob}
        if (len(recorded), len(refused)) == (len(self.recorded), len(self.refused)):
            return self
        return replace(self, recorded=recorded, refused=refused)

    def without(self, paths: Collection[str]) -> CaptureState:
        """Before we write these: found as we left them, they must not be taken for somebody's answer."""
        if not any(path in self.recorded for path in paths):
            return self
        return replace(self, recorded=_drop_paths(self.recorded, paths))

    def under(self, settings: str) -> CaptureState:
        return self if settings == self.settings else replace(self, settings=settings, refused={})

    def has(self, path: str, blob: str) -> bool:
        """Whether git was said to have exactly this."""
        return self.recorded.get(path) == blob

    def why_refused(self, path: str, blob: str) -> str | None:
        found = self.refused.get(path)
        return found.why if found is not None and found.blob == blob else None


def load(folder: DataFolder) -> CaptureState:
    try:
        with folder.entered(STATE) as state, os.fdopen(open_regular(state, NAME), "rb") as file:
            return _from_json(json.loads(file.read(MAX_STATE_BYTES)))
    except FileNotFoundError:
        return CaptureState()
    except (OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return CaptureState()


def save(folder: DataFolder, captured: CaptureState) -> None:
    """Durably, and as a whole or not at all."""
    content = json.dumps(_to_json(captured), separators=(",", ":")).encode()
    try:
        with state_folder(folder) as state:
            with suppress(FileNotFoundError):
                os.unlink(_NEW, dir_fd=state)
            fd = os.open(_NEW, CREATE, 0o600, dir_fd=state)
            try:
                write_all(fd, content)
                os.fsync(fd)
            finally:
                os.close(fd)
            os.rename(_NEW, NAME, src_dir_fd=state, dst_dir_fd=state)
            os.fsync(state)
    except OSError as error:
        raise unusable_folder_error(folder, error) from error


def _to_json(it: CaptureState) -> dict[str, Any]:
    return {
        "edition": _STATE_VERSION,
        "settings": it.settings,
        "recorded": dict(it.recorded),
        "refused": {path: [one.blob, one.why] for path, one in it.refused.items()},
        "sent": None
        if it.sent is None
        else {"id": it.sent.id, "files": dict(it.sent.files), "approvals": sorted(it.sent.approvals)},
        "lastId": it.last_id,
        "over": it.over,
        "approvalsUsed": sorted(it.approvals_used),
    }


def _from_json(said: Mapping[str, Any]) -> CaptureState:
    if said["edition"] != _STATE_VERSION:
        raise ValueError("another edition")
    sent = said["sent"]
    return CaptureState(
        settings=str(said["settings"]),
        recorded=_string_entries(said["recorded"]),
        refused={
            str(path): RefusedChange(str(blob), str(why)) for path, (blob, why) in said["refused"].items()
        },
        sent=None
        if sent is None
        else SentChanges(
            str(sent["id"]), _string_entries(sent["files"]), frozenset(map(str, sent.get("approvals", ())))
        ),
        last_id=str(said["lastId"]),
        over=str(said.get("over", "")),
        approvals_used=frozenset(map(str, said.get("approvalsUsed", ()))),
    )


def _string_entries(said: Mapping[Any, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in said.items()}


def _drop_paths(entries: Mapping[str, Any], paths: Collection[str]) -> dict[str, Any]:
    return {path: it for path, it in entries.items() if path not in paths}
