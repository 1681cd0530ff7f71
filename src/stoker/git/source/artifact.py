"""A registry or a bucket as the source of a sync, read through the same mirror as a git repository.

It implements `stoker.engine.source_protocol.SourceReader`. Callers pass the artifact's id in place
of a commit id; this module translates it to the commit that `stoker.git.mirror.artifact_import` made
from the artifact. Artifacts have no git signature and no history, so `vouch` refuses them when the
commit rules require either.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.git_objects import CommitTree, FileVersion, TreeChange
from stoker.domain.intent.source import SignatureMode
from stoker.domain.refs import CommitId, GitRef
from stoker.engine.artifact_source import ArtifactOrigin
from stoker.git.errors import GitFailed
from stoker.git.mirror.artifact_import import ArtifactImporter, ImportedObjects, artifact_commit
from stoker.git.mirror.cached_source import MirrorSource
from stoker.git.mirror.mirror import Mirror, MirrorFiller
from stoker.git.mirror.objects import MirrorObjects
from stoker.git.remote.fetch import FetchLimits
from stoker.git.remote.remote import Remote
from stoker.git.signature.ancestry import HistoryRewritten
from stoker.git.signature.policy import CommitRules
from stoker.git.signature.signed_objects import SignatureMissing

_DEFAULT = FetchLimits()
_ANY = CommitRules()


class _ImportedMirror(Mirror):
    """A mirror that is filled by importing artifacts; git itself never contacts a server."""

    def __init__(
        self, origin: ArtifactOrigin, remote: Remote, cache: Path, clock: Clock, limits: FetchLimits
    ) -> None:
        super().__init__(remote, cache, clock, limits)
        self._origin = origin

    def _objects_of(self, repository: Path) -> MirrorObjects:
        return ImportedObjects(self._remote.runner, repository)

    def _fetcher(self, repository: Path, objects: MirrorObjects) -> MirrorFiller:
        return ArtifactImporter(self._origin, self._remote.runner, repository, objects)


class ArtifactSource(MirrorSource):
    """One origin of artifacts, read through a mirror below `cache`."""

    def __init__(
        self,
        origin: ArtifactOrigin,
        remote: Remote,
        cache: Path,
        clock: Clock | None = None,
        limits: FetchLimits = _DEFAULT,
        rules: CommitRules = _ANY,
    ) -> None:
        """Create the source; `remote` selects the mirror, so that two credentials never share one."""
        clock = clock if clock is not None else SystemClock()
        mirror = _ImportedMirror(origin, remote, cache, clock, limits)
        super().__init__(remote.runner, mirror, cache, clock)
        self._origin = origin
        self._rules = rules

    async def resolve(self, ref: GitRef) -> CommitId:
        return await self._origin.resolve(ref)

    async def vouch(self, commit: CommitId, ref: GitRef, before: CommitId | None) -> None:
        if self._rules.signatures is not SignatureMode.NONE:
            raise SignatureMissing(
                f"artifact {commit} carries no signature of git's, and one is required; pin it by its digest"
            )
        if not self._rules.allow_rewrite and before not in (None, commit):
            raise HistoryRewritten(
                f"ref {str(ref)!r} was moved from artifact {before}, which was applied last, to {commit}, "
                "and nothing shows that one follows the other"
            )

    async def tree(self, commit: CommitId) -> CommitTree:
        return await super().tree(self._made_of(commit))

    async def changes(self, before: CommitId, after: CommitId) -> tuple[TreeChange, ...] | None:
        known = artifact_commit(self.repository, before)  # missing if the address has changed since
        return None if known is None else await super().changes(known, self._made_of(after))

    async def look_up(self, commit: CommitId, paths: Collection[str]) -> dict[str, FileVersion]:
        return await super().look_up(self._made_of(commit), paths)

    async def committed_at(self, commit: CommitId) -> int:
        return await super().committed_at(self._made_of(commit))

    def _made_of(self, artifact: CommitId) -> CommitId:
        made = artifact_commit(self.repository, artifact)
        if made is None:
            raise GitFailed(f"artifact {artifact} is not in the mirror")
        return made
