"""Decides which files of a change set may go to git. Pure.

A pod is not trusted: otherwise, any process that can write to the ConfigMaps of a resource could have any
content committed anywhere. A file is accepted if all of this holds:

- the resource's `watchPaths` contain its live path, and no exclude matches it
- its size is allowed
- a mapping of this very gateway puts this repository file at this path
- neither git nor a forge nor a CI service acts on it (`automation_files`)

A refused file is named with its reason, and the other files are accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stoker.controller.bidirectional.automation_files import closed_path_reason
from stoker.domain.git_objects import PathNote
from stoker.domain.intent.intent import GatewayIntent
from stoker.domain.intent.policies import BidirectionalPolicy
from stoker.domain.protocol import ChangeAction, ChangedFile
from stoker.engine.layout.desired_files import MappingRoute
from stoker.engine.layout.protected_paths import ProtectedPaths
from stoker.engine.match.globs import GlobSet


@dataclass(frozen=True, slots=True)
class GuardrailResult:
    """A change set divided into accepted and refused files."""

    taken: tuple[ChangedFile, ...]
    refused: tuple[PathNote, ...]
    """By live path."""


class GuardrailRules:
    """The rules for the files of one gateway."""

    def __init__(self, intent: GatewayIntent, policy: BidirectionalPolicy) -> None:
        self._watched = GlobSet(policy.watch_paths)
        self._excluded = GlobSet(policy.excludes)
        self._protection = ProtectedPaths(intent.files.excludes)
        routes = (MappingRoute.of(mapping, intent.values) for mapping in intent.files.mappings)
        # A mapping of the whole repository would let a gateway name any file in it.
        self._routes = tuple(route for route in routes if route.source)
        self._most_bytes = policy.max_file_bytes
        self.most_files = policy.max_files_per_pr
        self.opens_requests = policy.create_pr

    def judge(self, files: Sequence[ChangedFile]) -> GuardrailResult:
        taken: list[ChangedFile] = []
        refused: list[PathNote] = []
        places: set[str] = set()
        for one in sorted(files, key=lambda it: it.path):
            why = self._why_not(one) or ("comes twice" if one.repo_path in places else "")
            if not why and len(taken) >= self.most_files:
                why = f"is more than the {self.most_files} files that a pull request may have"
            if why:
                refused.append(PathNote(one.path, why))
            else:
                places.add(one.repo_path)
                taken.append(one)
        return GuardrailResult(tuple(taken), tuple(refused))

    def origins(self, path: str) -> Iterator[str]:
        """Repository files that a mapping may put at a live path."""
        yield from (origin for route in self._routes if (origin := route.origin(path)))

    def _why_not(self, one: ChangedFile) -> str:
        if not self._watched.matches(one.path):
            return "is not in watchPaths"
        if self._excluded.matches(one.path) or self._excluded.matches(one.repo_path):
            return "is excluded by the guardrails"
        if self._protection.covers(one.path):
            return "is excluded, or reserved for the gateway"
        if one.action is ChangeAction.WRITTEN and len(one.content) > self._most_bytes:
            return f"has {len(one.content)} bytes; {self._most_bytes} are allowed"
        if one.repo_path not in self.origins(one.path):
            return f"does not come from {one.repo_path} through any mapping of this gateway"
        closed = closed_path_reason(one.repo_path)
        return f"{one.repo_path} {closed}" if closed else ""
