"""Images without a registry: archives that are written here and imported on the node."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import shutil
import tarfile
from pathlib import Path
from typing import Any

import stoker_testkit
from stoker.domain.errors import Misconfigured

PAUSE = "stoker.test/pause:1"
PRODUCT = "stoker:dev"
"""The name of the product's image that `make image` builds."""
TEST_GATEWAY = "stoker.test/gateway:1"
"""The product's image and one more layer: this package, which `stoker testing gateway` needs."""
PACKAGES = "usr/local/lib/python3.11/dist-packages"
"""The folder of Python packages in the product's image."""
ARCHIVE = "STOKER_IMAGE_ARCHIVE"
DIST = Path(__file__).parents[4] / "dist"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def architecture() -> str:
    """This machine's, in the words of images."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def product_archive() -> Path:
    """The product's image for this machine, as `make image` leaves it, or the one that `ARCHIVE` names."""
    path = Path(os.environ.get(ARCHIVE) or DIST / f"stoker-image-{architecture()}.tar")
    if not path.is_file():
        raise Misconfigured(f"{path} is not there; `make image` makes it")
    return path


def write_test_gateway(path: Path, product: Path) -> None:
    """The archive of the test gateway's image, made from the product's."""
    package = Path(stoker_testkit.__file__).parent
    modules = {
        f"{PACKAGES}/{file.relative_to(package.parent).as_posix()}": file.read_bytes()
        for file in sorted(package.rglob("*.py"))
    }
    layer = _tar(modules)
    with tarfile.open(product) as archive:

        def content(name: str) -> bytes:
            member = archive.extractfile(name)
            if member is None:
                raise Misconfigured(f"{product}: {name} is not a file")
            return member.read()

        (manifest,) = json.loads(content("manifest.json"))
        config = json.loads(content(manifest["Config"]))
        below = {name: content(name) for name in manifest["Layers"]}
    config["rootfs"]["diff_ids"].append(_digest(layer))
    config["history"].append({"created": config["created"], "created_by": "stoker_testkit"})
    _write_image(path, TEST_GATEWAY, config, {**below, "testkit.tar": layer})


def write_pause(path: Path) -> None:
    """The archive of an image that does nothing: it holds a pod's namespaces while containers change."""
    busybox = shutil.which("busybox")
    if busybox is None:
        raise Misconfigured("busybox is not there; on Debian it is the package busybox-static")
    layer = _tar({"bin/busybox": Path(busybox).read_bytes()}, mode=0o755)
    config = {
        "architecture": architecture(),
        "os": "linux",
        "config": {"Entrypoint": ["/bin/busybox", "sleep", "2147483647"]},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    _write_image(path, PAUSE, config, {"layer.tar": layer})


def _write_image(path: Path, name: str, config: dict[str, Any], layers: dict[str, bytes]) -> None:
    """As `docker save` writes one; the lowest layer comes first."""
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": list(layers)}]
    described = {
        "config.json": json.dumps(config).encode(),
        "manifest.json": json.dumps(manifest).encode(),
    }
    path.write_bytes(_tar({**layers, **described}))


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _tar(files: dict[str, bytes], mode: int = 0o644) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
