"""A registry as an artifact origin: resolves tags and pulls artifacts.

An artifact's id is the SHA-256 digest of its manifest, so an agent pulls exactly the artifact that the
controller resolved, however often the tag moves in between. Following a tag costs one HEAD request. Every
blob is downloaded to disk and verified against its digest before any of it is unpacked.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from stoker.artifacts.errors import ArtifactDamaged, ArtifactRefused, ArtifactUnreachable
from stoker.artifacts.limits import ArtifactLimits, ArtifactReadBudget, UncheckedFile, bounded_files
from stoker.artifacts.oci_manifest import (
    ACCEPTED_MEDIA_TYPES,
    TITLE,
    LayerKind,
    OciManifest,
    choose_manifest,
    manifest_layers,
    parse_manifest,
)
from stoker.artifacts.registry_client import RegistryClient
from stoker.artifacts.tar import CHUNK_BYTES, archive_files
from stoker.domain.errors import InvalidValue
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.engine.artifact_source import ArtifactCredentialsReader, ArtifactFile

_ID = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_HUB = {"docker.io": "registry-1.docker.io", "index.docker.io": "registry-1.docker.io"}
_DEFAULT_LIMITS = ArtifactLimits()


class RegistryOrigin:
    """One repository of a registry, as an artifact origin."""

    def __init__(
        self, url: RepoUrl, credentials: ArtifactCredentialsReader, limits: ArtifactLimits = _DEFAULT_LIMITS
    ) -> None:
        parts = urlsplit(url)
        host = _HUB.get(parts.netloc, parts.netloc)
        self._base = f"{'http' if parts.query == 'plainHttp=true' else 'https'}://{host}"
        self._repository = parts.path.strip("/")
        self._place = f"oci://{parts.netloc}{parts.path}"
        self._credentials = credentials
        self._limits = limits

    async def resolve(self, ref: GitRef) -> CommitId:
        known = _ID.fullmatch(ref)
        if known is not None:
            return CommitId(known[1])
        if not _TAG.fullmatch(ref):
            raise InvalidValue(f"ref {str(ref)!r} is neither a tag nor a digest (sha256:…)")
        async with await self._calls(f"artifact {self._place}:{ref}") as calls:
            said = (await calls.head(f"manifests/{ref}", ACCEPTED_MEDIA_TYPES)).get(
                "docker-content-digest", ""
            )
            told = _ID.fullmatch(said)
            if told is not None:
                return CommitId(told[1])
            content = await calls.get(f"manifests/{ref}", ACCEPTED_MEDIA_TYPES, self._limits.manifest)
        return CommitId(hashlib.sha256(content).hexdigest())

    async def pull(self, artifact: CommitId, ref: GitRef, folder: Path) -> PulledArtifact:
        title = f"artifact {self._place}@sha256:{artifact}"
        seconds = self._limits.seconds
        try:
            return await asyncio.wait_for(self._pulled(artifact, title, folder), seconds)
        except TimeoutError:
            raise ArtifactUnreachable(f"{title} could not be pulled within {seconds:g} s") from None

    async def _pulled(self, artifact: CommitId, title: str, folder: Path) -> PulledArtifact:
        async with await self._calls(title) as calls:
            manifest = await self._manifest(calls, artifact, title)
            if manifest.manifests is not None:
                inner = choose_manifest(manifest, title, self._limits).digest.removeprefix("sha256:")
                manifest = await self._manifest(calls, inner, title)
                if manifest.layers is None:
                    raise ArtifactRefused(f"{title} is an index of indexes")
            layers = manifest_layers(manifest, title, self._limits)
            pulled = []
            for number, (kind, layer) in enumerate(layers):
                path = folder / str(number)
                await calls.download(layer.digest, layer.size, path)
                pulled.append(_DownloadedLayer(kind, path, layer.note(TITLE)))
        return PulledArtifact(title, manifest.made_at, pulled, self._limits)

    async def _manifest(self, calls: RegistryClient, digest: str, title: str) -> OciManifest:
        content = await calls.get(f"manifests/sha256:{digest}", ACCEPTED_MEDIA_TYPES, self._limits.manifest)
        if hashlib.sha256(content).hexdigest() != digest:
            raise ArtifactDamaged(f"the manifest of {title} does not match its digest")
        return parse_manifest(content, title)

    async def _calls(self, title: str) -> RegistryClient:
        credentials = await self._credentials()
        return RegistryClient(self._base, self._repository, title, credentials, self._limits.seconds)


class _DownloadedLayer:
    """A layer's blob on disk."""

    __slots__ = ("kind", "name", "path")

    def __init__(self, kind: LayerKind, path: Path, name: str) -> None:
        self.kind, self.path, self.name = kind, path, name


class PulledArtifact:
    """An artifact whose blobs are all on disk."""

    def __init__(
        self, title: str, made_at: int, layers: Sequence[_DownloadedLayer], limits: ArtifactLimits
    ) -> None:
        self.title = title
        self.made_at = made_at
        self._layers = layers
        self._limits = limits
        self._reading = ArtifactReadBudget(title, limits)

    def stop(self) -> None:
        self._reading.stop()

    def files(self) -> Iterator[ArtifactFile]:
        return bounded_files(self._named(), self.title, self._limits)

    def _named(self) -> Iterator[UncheckedFile]:
        for layer in self._layers:
            if layer.kind is LayerKind.FILE:
                yield UncheckedFile(layer.name, layer.path.stat().st_size, _read_chunks(layer.path))
            else:
                yield from archive_files(layer.path, self.title, self._reading)


def _read_chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
