"""Artifacts as publishers make them, and as attackers would.

flux({"a.json": "1"})          what `flux push artifact` makes: one archive of everything
oras({"a.json": "1"})          what `oras push` makes of files: a layer each, with a title
oras_folder("site", {…})       what `oras push` makes of a folder: an archive that is to be unpacked
index(flux({…}))               one manifest among attestations
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
FLUX_CONTENT = "application/vnd.cncf.flux.content.v1.tar+gzip"
FLUX_CONFIG = "application/vnd.cncf.flux.config.v1+json"
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar"
EMPTY = "application/vnd.oci.empty.v1+json"
CREATED = "2026-11-01T08:00:00Z"


@dataclass(frozen=True)
class PublishedArtifact:
    """A manifest and the blobs that it names."""

    manifest: bytes
    media_type: str = OCI_MANIFEST
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    inner: Sequence[PublishedArtifact] = ()

    @property
    def digest(self) -> str:
        return digest_of(self.manifest)


@dataclass(frozen=True)
class Layer:
    """One blob and what the manifest says of it."""

    content: bytes
    media_type: str = FLUX_CONTENT
    annotations: Mapping[str, str] = field(default_factory=dict)

    def described(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "mediaType": self.media_type,
            "digest": digest_of(self.content),
            "size": len(self.content),
        }
        return document | ({"annotations": dict(self.annotations)} if self.annotations else {})


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def made_of(*layers: Layer, config: Layer | None = None, created: str = CREATED) -> PublishedArtifact:
    config = config if config is not None else Layer(b"{}", EMPTY)
    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": config.described(),
        "layers": [layer.described() for layer in layers],
        "annotations": {"org.opencontainers.image.created": created},
    }
    blobs = {digest_of(layer.content): layer.content for layer in (config, *layers)}
    return PublishedArtifact(json.dumps(manifest).encode(), blobs=blobs)


def flux(files: Mapping[str, str | bytes], *, created: str = CREATED) -> PublishedArtifact:
    return made_of(Layer(tar(files)), config=Layer(b"{}", FLUX_CONFIG), created=created)


def oras(files: Mapping[str, str | bytes]) -> PublishedArtifact:
    return made_of(
        *(
            Layer(_bytes(content), OCI_LAYER, {"org.opencontainers.image.title": name})
            for name, content in files.items()
        )
    )


def oras_folder(name: str, files: Mapping[str, str | bytes]) -> PublishedArtifact:
    notes = {"org.opencontainers.image.title": name, "io.deis.oras.content.unpack": "true"}
    below = {f"{name}/{path}": content for path, content in files.items()}
    return made_of(Layer(tar(below), f"{OCI_LAYER}+gzip", notes))


def index(*members: PublishedArtifact, attested: bool = False) -> PublishedArtifact:
    def entry(one: PublishedArtifact, notes: Mapping[str, str]) -> dict[str, Any]:
        descriptor = {"mediaType": one.media_type, "digest": one.digest, "size": len(one.manifest)}
        return {**descriptor, "annotations": dict(notes)}

    entries = [entry(one, {}) for one in members]
    inner = list(members)
    if attested:
        inner.append(made_of(Layer(b"{}", "application/vnd.in-toto+json")))
        entries.append(entry(inner[-1], {"vnd.docker.reference.type": "attestation-manifest"}))
    document = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": entries}
    return PublishedArtifact(json.dumps(document).encode(), OCI_INDEX, inner=inner)


def tar(files: Mapping[str, str | bytes], *extra: tarfile.TarInfo, compressed: bool = True) -> bytes:
    """An archive; `extra` are entries without content, such as links."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(_bytes(content))
            info.mode = 0o755 if name.endswith(".sh") else 0o644
            archive.addfile(info, io.BytesIO(_bytes(content)))
        for info in extra:
            archive.addfile(info)
    return gzip.compress(out.getvalue(), mtime=0) if compressed else out.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """A link, a device or a pipe."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content
