"""The image as one file: an OCI layout in a tar.

`ctr images import`, `podman load`, `skopeo` and `crane` read the layout; for `docker load`
of older engines the same blobs are named once more in `manifest.json`.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from stoker_image.settling import USER

_OCI = "application/vnd.oci.image"
DESCRIPTION = "GitOps for Ignition gateways, and a Kubernetes cluster's resources recorded in Git"
LICENCE = "Apache-2.0"
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",  # noqa: S108 - the one folder that may be written; a user without a name has no home
    "LANG": "C.UTF-8",
    # One arena instead of one per thread, and what is freed goes back: some 5 MB in each process.
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": "65536",
}


class Identity(NamedTuple):
    """What the image is called and where it comes from."""

    version: str
    revision: str
    when: int
    architecture: str

    @property
    def names(self) -> tuple[str, ...]:
        return (f"stoker:{self.version}", "stoker:dev")


class Blob(NamedTuple):
    media_type: str
    content: bytes

    @property
    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.content).hexdigest()}"

    def descriptor(self, **more: object) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": len(self.content), **more}


def write_archive(place: Path, layer: bytes, identity: Identity) -> str:
    """The archive at that place; returns the digest of the image."""
    packed = Blob(f"{_OCI}.layer.v1.tar+gzip", gzip.compress(layer, 6, mtime=0))
    config = Blob(f"{_OCI}.config.v1+json", _json(_config(layer, identity)))
    manifest = Blob(
        f"{_OCI}.manifest.v1+json",
        _json(
            {
                "schemaVersion": 2,
                "mediaType": f"{_OCI}.manifest.v1+json",
                "config": config.descriptor(),
                "layers": [packed.descriptor()],
                "annotations": _labels(identity),
            }
        ),
    )
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json(_index(manifest, identity)),
        "manifest.json": _json(
            [{"Config": _path(config), "Layers": [_path(packed)], "RepoTags": list(identity.names)}]
        ),
        **{_path(blob): blob.content for blob in (config, manifest, packed)},
    }
    _write(place, files, identity.when)
    return manifest.digest


def join_archives(place: Path, archives: Sequence[Path], when: int) -> str:
    """One archive with the images of several processors under one index; returns the digest of that index.

    Nothing is built or resolved here: the blobs are those of the archives.
    """
    blobs: dict[str, bytes] = {}
    manifests = []
    for path in archives:
        with tarfile.open(path) as archive:
            contents = {one.name: _content(archive, one) for one in archive if one.isfile()}
        described = json.loads(contents["index.json"])["manifests"][0]
        manifests.append({key: value for key, value in described.items() if key != "annotations"})
        blobs |= {name: content for name, content in contents.items() if name.startswith("blobs/")}
    media_type = f"{_OCI}.index.v1+json"
    index = Blob(media_type, _json({"schemaVersion": 2, "mediaType": media_type, "manifests": manifests}))
    outer = {"schemaVersion": 2, "mediaType": media_type, "manifests": [index.descriptor()]}
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json(outer),
        _path(index): index.content,
        **blobs,
    }
    _write(place, files, when)
    return index.digest


def _write(place: Path, files: Mapping[str, bytes], when: int) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.with_suffix(".new")
    with tarfile.open(beside, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(content), when, 0o644
            archive.addfile(info, io.BytesIO(content))
    beside.replace(place)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return b"" if file is None else file.read()


def _config(layer: bytes, identity: Identity) -> dict[str, Any]:
    created = datetime.fromtimestamp(identity.when, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "created": created,
        "architecture": identity.architecture,
        **({"variant": "v8"} if identity.architecture == "arm64" else {}),
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
            "Entrypoint": ["stoker"],
            "WorkingDir": "/",
            "Labels": _labels(identity),
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created": created, "created_by": "make image"}],
    }


def _labels(identity: Identity) -> dict[str, str]:
    return {
        "org.opencontainers.image.title": "stoker",
        "org.opencontainers.image.description": DESCRIPTION,
        "org.opencontainers.image.licenses": LICENCE,
        "org.opencontainers.image.version": identity.version,
        "org.opencontainers.image.revision": identity.revision,
    }


def _index(manifest: Blob, identity: Identity) -> dict[str, Any]:
    platform = {"architecture": identity.architecture, "os": "linux"}
    named = [
        manifest.descriptor(
            platform=platform,
            annotations={
                # The kubelet asks for `stoker:dev` under its long name.
                "io.containerd.image.name": f"docker.io/library/{name}",
                "org.opencontainers.image.ref.name": name.partition(":")[2],
            },
        )
        for name in identity.names
    ]
    return {"schemaVersion": 2, "mediaType": f"{_OCI}.index.v1+json", "manifests": named}


def _path(blob: Blob) -> str:
    return f"blobs/sha256/{blob.digest.removeprefix('sha256:')}"


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
