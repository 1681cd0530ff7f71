"""Builds the part of a gateway's report about its captured changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stoker.agent.bidirectional.holds import version_id
from stoker.agent.bidirectional.state import CaptureState
from stoker.domain.errors import StokerError
from stoker.domain.git_objects import FileVersion
from stoker.domain.protocol import GatewayChangesReport
from stoker.domain.reasons import Reason

LISTED = 20


class CaptureStatus:
    """Counts pending, refused and held changes, and keeps the reasons."""

    def __init__(self, most: int) -> None:
        self.held = 0
        """Paths that the last sync left alone."""
        self.trouble: StokerError | None = None
        self.unapproved = ""
        """Why deletions on the gateway are not sent to git until a person approves them."""
        self._most = most
        self._refused: dict[str, tuple[str, str]] = {}
        """Changes that the agent itself refused, each with its content and the reason."""
        self._commit = ""
        self._open = 0

    @property
    def too_many(self) -> bool:
        return self._open > self._most

    def refuse(self, path: str, blob: str, why: str) -> None:
        self._refused[path] = blob, why

    def sorted(
        self, candidates: Mapping[str, FileVersion | None], memory: CaptureState, commit: str
    ) -> dict[str, FileVersion | None]:
        """Return the changes that can be sent; a new commit makes refused changes eligible again."""
        if commit != self._commit:
            self._refused.clear()
            self._commit = commit
        can = {
            path: version
            for path, version in candidates.items()
            if self._why(path, version_id(version), memory) is None
        }
        self._open = len(can)
        return can

    def told(
        self, changes: Mapping[str, FileVersion | None], memory: CaptureState, holds: Collection[str]
    ) -> GatewayChangesReport:
        left = {
            path: blob
            for path, version in changes.items()
            if not memory.has(path, blob := version_id(version))
        }
        refused = {path: why for path, blob in left.items() if (why := self._why(path, blob, memory))}
        pending = [path for path in left if path not in refused]
        sent = memory.sent.id if memory.sent is not None else ""
        if not (left or sent or self.held):
            return GatewayChangesReport()
        reason, message = self._words(pending, refused, sent, holds)
        return GatewayChangesReport(
            sent,
            len(pending),
            len(refused),
            self.held,
            tuple([*sorted(refused), *sorted(pending)][:LISTED]),
            str(reason),
            message,
        )

    def _why(self, path: str, blob: str, memory: CaptureState) -> str | None:
        found = self._refused.get(path)
        if found is not None and found[0] == blob:
            return found[1]
        return memory.why_refused(path, blob)

    def _words(
        self, pending: Collection[str], refused: Mapping[str, str], sent: str, holds: Collection[str]
    ) -> tuple[Reason, str]:
        if self.too_many:
            sentence = (
                f"{self._open} files were changed on the gateway, and guardrails.maxFilesPerPR allows "
                f"{self._most} at once; none of them was sent"
            )
            return Reason.CHANGE_REFUSED, sentence
        if self.unapproved:
            return Reason.CHANGE_HELD, self.unapproved
        if refused:
            path, why = min(refused.items())
            return Reason.CHANGE_REFUSED, f"{path}: {why}"
        if self.trouble is not None:
            return Reason.CHANGE_PENDING, self.trouble.message
        if pending or sent:
            on_its_way = f", change set {sent} was sent and is not answered yet" if sent else ""
            return (
                Reason.CHANGE_PENDING,
                f"{len(pending)} changed files are not recorded in git yet{on_its_way}",
            )
        return (
            Reason.CHANGE_HELD,
            f"{self.held} paths are held for {len(holds)} files in an open pull request",
        )
