"""The interface between artifact sources and the code that turns artifacts into commits.

A registry or a bucket (`stoker.artifacts`) implements `ArtifactOrigin` and supplies files;
`stoker.git.mirror.artifact_import` imports them into a mirror. Neither imports the other. An id of 64
hexadecimal digits names an artifact: the registry's own digest, or a digest over a bucket's listing.
Controller, ledger, plan and report know an artifact only by this id.
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
    """Credentials and connection settings of a registry or bucket; read again for each use."""

    username: str = ""
    password: Secret | None = None
    is_token: bool = False
    """The password is a token; the registry ignores the user name beside it."""
    ca: bytes | None = None
    """Certificates in PEM form, trusted in addition to the system's."""
    proxy: str = ""


ArtifactCredentialsReader: TypeAlias = Callable[[], Awaitable[ArtifactCredentials]]


class ArtifactFile(NamedTuple):
    """One file. The caller must read its content before it takes the next file from the iterator."""

    path: RelPath
    size: int
    chunks: Iterator[bytes]
    """Exactly `size` bytes; the iterator raises if the source delivers fewer or more."""
    executable: bool = False


class Artifact(Protocol):
    """An artifact that was pulled."""

    @property
    def title(self) -> str:
        """Where it comes from; the same text for the same artifact of the same origin."""
        ...

    @property
    def made_at(self) -> int:
        """When it was made, in Unix seconds; 0 where the origin does not report a time."""
        ...

    def files(self) -> Iterator[ArtifactFile]:
        """Iterate over all files, checked and bounded; call it in a worker thread."""
        ...

    def stop(self) -> None:
        """Make `files` raise soon, because the caller no longer needs the rest; callable from any thread."""
        ...


class ArtifactOrigin(Protocol):
    """A registry or bucket, read only: this interface has no method that changes it."""

    async def resolve(self, ref: GitRef) -> CommitId:
        """Return the id of the artifact that a tag, digest or prefix names now."""
        ...

    async def pull(self, artifact: CommitId, ref: GitRef, folder: Path) -> Artifact:
        """Pull exactly this artifact; `folder` is empty and exists until the caller has read the files."""
        ...
