"""What is told between a place that holds artifacts and whoever makes commits of them.

A registry or a bucket (`stoker.artifacts`) hands out files; `stoker.git.mirror.artifact_import` puts
them into a mirror. Neither knows the other. An artifact is named by an id of 64
hexadecimal digits, which is all that controller, ledger, plan and report know of it: a
registry's own digest, or a digest over a bucket's listing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from stoker.domain.paths import RelPath
from stoker.domain.refs import CommitId, GitRef
from stoker.domain.secrets import Secret

ID_DIGITS = 64


class ArtifactCredentials(NamedTuple):
    """How a registry or bucket is reached now; read anew for each use."""

    username: str = ""
    password: Secret | None = None
    is_token: bool = False
    """The password is a token, and the user name beside it is nobody's."""
    ca: bytes | None = None
    """Certificates in PEM form that are trusted besides the system's."""
    proxy: str = ""


ArtifactCredentialsReader: TypeAlias = Callable[[], Awaitable[ArtifactCredentials]]


class ArtifactFile(NamedTuple):
    """One file; its content must be taken before the next one is asked for."""

    path: RelPath
    size: int
    chunks: Iterator[bytes]
    """Exactly `size` bytes, or an error."""
    executable: bool = False


class Artifact(Protocol):
    """What was pulled."""

    @property
    def title(self) -> str:
        """Where it is from; the same for the same artifact of the same origin."""
        ...

    @property
    def made_at(self) -> int:
        """When, in Unix seconds; 0 where nobody says so."""
        ...

    def files(self) -> Iterator[ArtifactFile]:
        """All files, checked and bounded; for a worker thread."""
        ...

    def stop(self) -> None:
        """Have `files` raise soon, because nobody waits for the rest; from any thread."""
        ...


class ArtifactOrigin(Protocol):
    """A place that holds artifacts, and can be changed by nobody through this."""

    async def resolve(self, ref: GitRef) -> CommitId:
        """The id of what a tag, digest or prefix means now."""
        ...

    async def pull(self, artifact: CommitId, ref: GitRef, folder: Path) -> Artifact:
        """Exactly this artifact; `folder` is empty and stays until its files were taken."""
        ...
