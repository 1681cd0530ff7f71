"""Parses OCI manifests and indexes, and decides how to read each layer.

    index       several manifests under one name; accepted if exactly one of them holds files
    manifest    layers, each a blob with a digest and a size

A layer with a title is one file, as ORAS publishes it. A layer is an archive if ORAS marks it as a packed
folder or its media type ends in `tar` or `tar+gzip`, as Flux publishes it. `stoker.artifacts.registry` uses
this module, which does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

import msgspec

from stoker.artifacts.errors import ArtifactRefused, ArtifactTooLarge, printable_name
from stoker.artifacts.limits import ArtifactLimits
from stoker.domain.clock import EPOCH, rfc3339_or

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
ACCEPTED_MEDIA_TYPES = ", ".join((OCI_MANIFEST, OCI_INDEX, DOCKER_MANIFEST, DOCKER_INDEX))
EMPTY = "application/vnd.oci.empty.v1+json"
TITLE = "org.opencontainers.image.title"
CREATED = "org.opencontainers.image.created"
UNPACK = "io.deis.oras.content.unpack"
_REFERENCE = "vnd.docker.reference.type"

_ARCHIVE = re.compile(r"[a-z0-9.+/-]*[./+-](?:x-)?tar(?:[.+-]?gz(?:ip)?)?")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
_LATEST = 1 << 40


class OciDescriptor(msgspec.Struct, frozen=True, rename="camel"):
    """A reference to a blob or manifest by its digest."""

    media_type: str
    digest: str
    size: int
    annotations: Mapping[str, str] | None = None
    artifact_type: str | None = None

    def note(self, key: str) -> str:
        return (self.annotations or {}).get(key, "")


class OciManifest(msgspec.Struct, frozen=True, rename="camel"):
    """An index or a manifest: an index has `manifests`, a manifest has `layers`."""

    schema_version: int = 0
    media_type: str = ""
    manifests: tuple[OciDescriptor, ...] | None = None
    layers: tuple[OciDescriptor, ...] | None = None
    annotations: Mapping[str, str] | None = None

    @property
    def made_at(self) -> int:
        """The creation time in Unix seconds; 0 if the manifest has none."""
        stamp = int(rfc3339_or((self.annotations or {}).get(CREATED), EPOCH).timestamp())
        return stamp if 0 <= stamp < _LATEST else 0


class LayerKind(Enum):
    """Whether a layer is one file or an archive."""

    FILE = "file"
    ARCHIVE = "archive"


def parse_manifest(content: bytes, title: str) -> OciManifest:
    """Parse a manifest or an index; raise `ArtifactRefused` for anything else."""
    try:
        found = msgspec.json.decode(content, type=OciManifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ArtifactRefused(f"{title} has an unreadable manifest") from None
    if found.schema_version != 2 or (found.manifests is None) == (found.layers is None):
        raise ArtifactRefused(f"{title} has neither an OCI nor a Docker schema 2 manifest")
    return found


def choose_manifest(index: OciManifest, title: str, limits: ArtifactLimits) -> OciDescriptor:
    """Return the one manifest of an index that holds files; signatures and attestations are ignored."""
    found = [
        one
        for one in index.manifests or ()
        if one.media_type in (OCI_MANIFEST, DOCKER_MANIFEST) and not one.note(_REFERENCE)
    ]
    if len(found) != 1:
        raise ArtifactRefused(
            f"{title} is an index of {len(found)} manifests; name one by its digest as the ref"
        )
    _check_digest(found[0], title)
    if found[0].size > limits.manifest:
        raise ArtifactTooLarge(f"{title} names a manifest of more than {limits.manifest} bytes")
    if not found[0].digest.startswith("sha256:"):  # the digest is the artifact's id, which must be SHA-256
        raise ArtifactRefused(
            f"{title} is an index that names its manifest by {printable_name(found[0].digest)}, not by "
            f"SHA-256"
        )
    return found[0]


def manifest_layers(
    manifest: OciManifest, title: str, limits: ArtifactLimits
) -> list[tuple[LayerKind, OciDescriptor]]:
    """Return the layers to pull, in order; raise if their number or declared size exceeds a limit."""
    layers = [layer for layer in manifest.layers or () if layer.media_type != EMPTY]
    if not layers:
        raise ArtifactRefused(f"{title} has no layers and so no files")
    if len(layers) > limits.layers:
        raise ArtifactTooLarge(f"{title} has more than {limits.layers} layers")
    for layer in layers:
        _check_digest(layer, title)
    if sum(layer.size for layer in layers) > limits.packed:
        raise ArtifactTooLarge(f"{title} is larger than {limits.packed} bytes")
    return [(_kind(layer, title), layer) for layer in layers]


def _kind(layer: OciDescriptor, title: str) -> LayerKind:
    if layer.note(UNPACK) == "true":
        return LayerKind.ARCHIVE
    if layer.note(TITLE):
        return LayerKind.FILE
    if _ARCHIVE.fullmatch(layer.media_type.lower()):
        return LayerKind.ARCHIVE
    raise ArtifactRefused(
        f"{title} has a layer of media type {printable_name(layer.media_type)}, which is neither an archive "
        f"nor "
        "a file with a title"
    )


def _check_digest(one: OciDescriptor, title: str) -> None:
    if not _DIGEST.fullmatch(one.digest) or one.size < 0:
        raise ArtifactRefused(
            f"{title} names a blob by {printable_name(one.digest)}, which is neither a SHA-256 nor a "
            "SHA-512 digest"
        )
