"""The state of a gateway's captured changes, stored beside the ledger.

For each live path it holds the content that git has, or the content that git refused and why; and the change
set that is sent. Contents are identified by `holds.version_id`; a deleted file is an empty string. The state
only saves work: if it is lost, the changes are sent again and the controller answers that git has them. So an
unreadable state counts as empty.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stoker.domain.intent.annotation_requests import PlanApproval
from stoker.domain.protocol import ChangeSetReply, ChangeSetResult
from stoker.engine.layout.protected_paths import STATE
from stoker.fs.data_folder import DataFolder, open_regular, replace_file
from stoker.fs.lock import state_folder, unusable_folder_error

NAME = "captured.json"
MAX_STATE_BYTES = 16 << 20
_STATE_VERSION = 1


@dataclass(frozen=True, slots=True)
class SentChanges:
    """A change set that waits for the controller's reply."""

    id: str
    files: Mapping[str, str] = field(default_factory=dict)
    """Live paths, each with the id of its content."""
    approvals: frozenset[str] = frozenset()
    """Approvals that released its deletions; they become unused again if the change set did not arrive."""


@dataclass(frozen=True, slots=True)
class RefusedChange:
    blob: str
    why: str


@dataclass(frozen=True, slots=True)
class CaptureState:
    """The state as an immutable value."""

    settings: str = ""
    """A digest of the capture settings, and the commit; if they change, refused changes are tried again."""
    recorded: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, RefusedChange] = field(default_factory=dict)
    sent: SentChanges | None = None
    last_id: str = ""
    over: str = ""
    """The controller's id of the last change set before the last pull request was closed."""
    approvals_used: frozenset[str] = frozenset()
    """Used approvals of deletions that are still given: each counts once."""

    def approved_by(self, given: Collection[PlanApproval]) -> CaptureState:
        """Drop used approvals that were withdrawn: they may be given again."""
        used = self.approvals_used & {one.text for one in given}
        return self if used == self.approvals_used else replace(self, approvals_used=used)

    def answered(self, answer: ChangeSetReply | None) -> CaptureState:
        """Apply the controller's reply to the sent change set; unchanged if it concerns another one.

        When a pull request is closed, changes refused until then are tried again.
        """
        if answer is None:
            return self
        if answer.over not in ("", self.over):
            return replace(self, refused={}, over=answer.over).answered(answer)
        if self.sent is None or answer.id != self.sent.id:
            return self
        none = answer.result is ChangeSetResult.REFUSED
        out = {path: blob for path, blob in self.sent.files.items() if none or path in answer.refused}
        why = answer.message or "the controller does not accept it"
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
        """Record a change set before it is sent, with the approvals that released its deletions."""
        used = self.approvals_used | approvals
        return replace(self, sent=replace(sent, approvals=approvals), last_id=sent.id, approvals_used=used)

    def unsent(self, set_id: str) -> CaptureState:
        """Forget a change set that was not sent or did not arrive; its id is not used again."""
        if self.sent is None or self.sent.id != set_id:
            return self
        return replace(self, sent=None, approvals_used=self.approvals_used - self.sent.approvals)

    def knowing(self, changed: Mapping[str, str], undone: Collection[str] = ()) -> CaptureState:
        """Drop entries whose change is gone or different; git still has those that were reverted here."""
        recorded = {
            path: blob for path, blob in self.recorded.items() if changed.get(path) == blob or path in undone
        }
        refused = {path: it for path, it in self.refused.items() if changed.get(path) == it.blob}
        if (len(recorded), len(refused)) == (len(self.recorded), len(self.refused)):
            return self
        return replace(self, recorded=recorded, refused=refused)

    def without(self, paths: Collection[str]) -> CaptureState:
        """Drop these paths before a sync writes them, so that its writes are not taken for a revert."""
        if not any(path in self.recorded for path in paths):
            return self
        return replace(self, recorded=_drop_paths(self.recorded, paths))

    def under(self, settings: str) -> CaptureState:
        return self if settings == self.settings else replace(self, settings=settings, refused={})

    def has(self, path: str, blob: str) -> bool:
        """Return whether git has exactly this content, by the controller's reply."""
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
    """Save durably and atomically."""
    content = json.dumps(_to_json(captured), separators=(",", ":")).encode()
    try:
        with state_folder(folder) as state:
            replace_file(state, NAME, content, durable=True)
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
