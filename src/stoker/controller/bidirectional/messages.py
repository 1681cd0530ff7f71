"""The text of commits and pull requests. Pure.

Paths and names come from pods. They are shown as one printable line that contains no command to a forge or a
CI service. In a description they are shown as code, so that a forge renders no mention, link or HTML.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.controller.bidirectional.three_way_decision import MergeDecision
from stoker.domain.clock import EPOCH, rfc3339_or
from stoker.domain.git_objects import inert_name
from stoker.domain.intent.intent import ResourceIdentity
from stoker.domain.intent.policies import ConflictStrategy
from stoker.domain.protocol import ChangeAction, ChangedFile, ChangeSet
from stoker.git.commit.types import CommitAuthor, FileEdit, NewCommit

DOMAIN = "stoker.invalid"
COMMITTER = CommitAuthor("Stoker", f"controller@{DOMAIN}")
MAX_LISTED = 200
_SHARED = "Branch-Shared: yes"

_ACTION_WORDS = {ChangeAction.WRITTEN: "changed", ChangeAction.DELETED: "deleted"}
_STRATEGY_TEXTS = {
    ConflictStrategy.GIT_WINS: "Until this is merged, syncs write git's version to the gateway.",
    ConflictStrategy.GATEWAY_WINS: "While this is open, syncs do not change these files on the gateway.",
    ConflictStrategy.MANUAL: "While this is open, syncs do not change these files on the gateway.",
}


@dataclass(frozen=True, slots=True)
class ChangeSetOrigin:
    """The resource and gateway that a change set comes from."""

    resource: ResourceIdentity
    gateway: str


def change_commit(
    changes: ChangeSet, verdict: MergeDecision, origin: ChangeSetOrigin, *, shared: bool = False
) -> NewCommit:
    """Build the commit; the same change set on the same base gives the same commit id at any time.

    `shared`: others have written to the branch; every later commit on it repeats that in a trailer.
    """
    edits = tuple(
        FileEdit(path, content, path in verdict.programs) for path, content in sorted(verdict.edits.items())
    )
    author = CommitAuthor(
        f"Gateway {inert_name(origin.gateway)}", f"gateway@{origin.resource.namespace}.{DOMAIN}"
    )
    message = _message(changes, verdict, origin) + (f"\n{_SHARED}" if shared else "")
    return NewCommit(author, COMMITTER, message, edits, _commit_time(changes))


def is_own_commit(commit: bytes) -> bool:
    """Whether a branch that ends with this raw commit object has only commits of ours."""
    head, _, message = commit.partition(b"\n\n")
    ours = f"committer {COMMITTER.name} <{COMMITTER.email}> ".encode()
    return any(line.startswith(ours) for line in head.splitlines()) and _SHARED.encode() not in (
        message.splitlines()
    )


def request_title(origin: ChangeSetOrigin) -> str:
    return f"Changes from gateway {inert_name(origin.gateway)}"


def request_description(
    origin: ChangeSetOrigin,
    followed: str,
    strategy: ConflictStrategy,
    *,
    changes: ChangeSet | None = None,
    verdict: MergeDecision | None = None,
    conflicts: Sequence[str] = (),
) -> str:
    """Describe the pull request for its reviewer; without a change set, only what applies to all."""
    resource = origin.resource
    whose = f"{resource.door} {_as_code(f'{resource.namespace}/{resource.name}')}"
    lines = [f"Files were changed on gateway {_as_code(origin.gateway)} ({whose}).", ""]
    if changes is not None and verdict is not None:
        lines += [
            f"Change set {_as_code(changes.id)}, based on commit {_as_code(changes.base_commit)}:",
            "",
            *_table(verdict),
            "",
        ]
    lines += ["Each change set is one commit; its message lists its files.", ""]
    if conflicts:
        lines += [
            f"**{len(conflicts)} files are in conflict**: git and the gateway have both changed them.",
            "Merging this pull request keeps the gateway's version. Compare them first:",
            "",
            *(f"- {_as_code(path)}" for path in conflicts[:MAX_LISTED]),
            "",
        ]
    lines += [
        f"Merged into {_as_code(followed)}, they match the gateway and nothing changes there.",
        "If this is closed without merging, the next sync writes git's version of these files.",
        _STRATEGY_TEXTS[strategy],
    ]
    return "\n".join(lines).strip() + "\n"


def _table(verdict: MergeDecision) -> list[str]:
    lines = ["| file | path on the gateway | |", "|---|---|---|"]
    lines += [
        f"| {_as_code(one.repo_path)} | {_as_code(one.path)} | {_word(one, verdict)} |"
        for one in verdict.changed[:MAX_LISTED]
    ]
    if len(verdict.changed) > MAX_LISTED:
        lines.append(f"| and {len(verdict.changed) - MAX_LISTED} more | | |")
    return lines


def _message(changes: ChangeSet, verdict: MergeDecision, origin: ChangeSetOrigin) -> str:
    listed = [f"{_word(one, verdict)}: {inert_name(one.repo_path)}" for one in verdict.changed[:MAX_LISTED]]
    if len(verdict.changed) > MAX_LISTED:
        listed.append(f"and {len(verdict.changed) - MAX_LISTED} more")
    listed += [f"kept, in conflict: {inert_name(path)}" for path in verdict.kept[:MAX_LISTED]]
    trailers = [
        f"Gateway: {inert_name(origin.gateway)}",
        f"Resource: {origin.resource.namespace}/{origin.resource.name}",
        f"Base-Commit: {changes.base_commit}",
        f"Change-Set: {changes.id}",
    ]
    return "\n".join([request_title(origin), "", *listed, "", *trailers])


def _word(one: ChangedFile, verdict: MergeDecision) -> str:
    word = "added" if not one.base and one.action is ChangeAction.WRITTEN else _ACTION_WORDS[one.action]
    if one.changes_mode and one.blob == one.base:
        word = "made executable" if one.executable else "made not executable"
    if one in verdict.conflicts:
        return f"{word}, in conflict"
    return f"{word}, merged with git's change" if one in verdict.merged else word


def _as_code(text: str) -> str:
    """Format as code in Markdown, also in a table; a backtick would end the code."""
    return "`" + inert_name(text).replace("`", "'").replace("|", "\\|") + "`"


def _commit_time(changes: ChangeSet) -> int:
    """When the change was detected; the epoch if that is not a valid time."""
    return max(0, int(rfc3339_or(changes.detected_at, EPOCH).timestamp()))
