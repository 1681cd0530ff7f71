"""Change sets of bidirectional sync and the controller's answers to them, as values.

An agent sends a `ChangeSet`: whole files, as the repository shall have them, with what they
were made from. `stoker.domain.protocol.change_set_codec` carries it through ConfigMaps.
The controller answers with a `ChangeSetReply` in the metadata ConfigMap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from stoker.domain.protocol.json import decode_dataclass, quote_value
from stoker.domain.refs import CommitId

CHANGE_MAPS = 8
PLAIN, PROGRAM = "100644", "100755"


class ChangeAction(StrEnum):
    WRITTEN = "written"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One file as the gateway has it, and where it belongs."""

    path: str
    """Below the data folder."""
    repo_path: str
    """Below the root of the repository."""
    action: ChangeAction
    base: str = ""
    """Blob id of `repo_path` in the base commit; empty: it was not there."""
    blob: str = ""
    """Blob id of the content; empty: it is deleted."""
    content: bytes = b""
    mode: str = PLAIN
    base_mode: str = ""
    """What the file had been given; empty: nobody says, or it was not there."""

    @property
    def executable(self) -> bool:
        return self.mode == PROGRAM

    @property
    def changes_mode(self) -> bool:
        """Whether somebody changed on the gateway whether it may be executed."""
        return self.base_mode not in ("", self.mode)


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Everything that one gateway has to say at one time."""

    id: str
    """`YYYYMMDD-HHMMSS`, unique for the gateway."""
    gateway: str
    base_commit: CommitId
    files: tuple[ChangedFile, ...] = field(default=())
    detected_at: str = ""


class ChangeSetResult(StrEnum):
    RECORDED = "Recorded"
    """Git has it, on the branch or on the ref itself."""
    REFUSED = "Refused"
    """It does not go to git; it stays on the gateway."""


@dataclass(frozen=True, slots=True)
class ChangeSetReply:
    """What became of a gateway's last set, and what must stay as it is until somebody decides."""

    id: str
    result: ChangeSetResult = ChangeSetResult.RECORDED
    message: str = ""
    refused: tuple[str, ...] = ()
    """Live paths of the set that git did not get; of all others it has exactly what was sent."""
    holds: tuple[str, ...] = ()
    """Live paths that are not overwritten while their pull request is open, of this and earlier sets."""
    over: str = ""
    """The last set before the end of the last request: what was refused up to it may be asked again."""


def parse_answers(entries: Mapping[str, Any]) -> dict[str, ChangeSetReply]:
    """The answers of a metadata map, by gateway; raises for what is none."""
    return {
        name: decode_dataclass(ChangeSetReply, value, f"the answer to {quote_value(name)}")
        for name, value in entries.items()
    }
