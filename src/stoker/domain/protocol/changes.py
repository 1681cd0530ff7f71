"""Change sets of bidirectional sync and the controller's replies to them, as values.

An agent sends a `ChangeSet`: whole files, as the repository shall have them, with the base
versions from which they were changed. `stoker.domain.protocol.change_set_codec` encodes it for
ConfigMaps. The controller answers with a `ChangeSetReply` in the metadata ConfigMap.
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
    """One file as it is on the gateway, and its path in the repository."""

    path: str
    """Below the data folder."""
    repo_path: str
    """Below the root of the repository."""
    action: ChangeAction
    base: str = ""
    """Blob id of `repo_path` in the base commit; empty: the file did not exist there."""
    blob: str = ""
    """Blob id of the content; empty: the file is deleted."""
    content: bytes = b""
    mode: str = PLAIN
    base_mode: str = ""
    """The mode that the last sync gave the file; empty: unknown, or the file did not exist."""

    @property
    def executable(self) -> bool:
        return self.mode == PROGRAM

    @property
    def changes_mode(self) -> bool:
        """Whether the executable bit was changed on the gateway."""
        return self.base_mode not in ("", self.mode)


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """All changes that one gateway sends at one time."""

    id: str
    """`YYYYMMDD-HHMMSS`, unique for the gateway."""
    gateway: str
    base_commit: CommitId
    files: tuple[ChangedFile, ...] = field(default=())
    detected_at: str = ""


class ChangeSetResult(StrEnum):
    RECORDED = "Recorded"
    """The change is in git, on the branch or on the ref itself."""
    REFUSED = "Refused"
    """The change does not go to git; it stays on the gateway."""


@dataclass(frozen=True, slots=True)
class ChangeSetReply:
    """The result of a gateway's last set, and the paths that must not be overwritten meanwhile."""

    id: str
    result: ChangeSetResult = ChangeSetResult.RECORDED
    message: str = ""
    refused: tuple[str, ...] = ()
    """Live paths of the set that were not written to git; git has exactly the sent version of all others."""
    holds: tuple[str, ...] = ()
    """Live paths that are not overwritten while their pull request is open, of this and earlier sets."""
    over: str = ""
    """The last set before the last pull request ended: changes refused up to it may be sent again."""


def parse_answers(entries: Mapping[str, Any]) -> dict[str, ChangeSetReply]:
    """Parse the replies of a metadata ConfigMap, by gateway; raise `InvalidValue` for a malformed reply."""
    return {
        name: decode_dataclass(ChangeSetReply, value, f"the answer to {quote_value(name)}")
        for name, value in entries.items()
    }
