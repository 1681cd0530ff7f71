"""`python -m stoker_image image | rootfs | join | lock`; `make image` is the usual way here."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from stoker_image.archives import Identity, join_archives, write_archive
from stoker_image.assembling import LOCK, PROJECT, assemble, cache, find_uv, unpack
from stoker_image.boms import bill, distributions
from stoker_image.commands import ImageError
from stoker_image.contents import ARCHITECTURES
from stoker_image.debs import read_lock, resolve
from stoker_image.wheels import own_architecture, requirements


def main() -> int:
    parser = argparse.ArgumentParser(prog="stoker_image", description=__doc__)
    orders = parser.add_subparsers(dest="order", required=True)
    orders.add_parser("lock", help="write the lock file of Debian packages for all architectures")
    orders.add_parser("join", help="make one OCI archive in dist/ of those for each architecture")
    for name, what in (("image", "an OCI archive in dist/"), ("rootfs", "a folder")):
        order = orders.add_parser(name, help=f"make {what}")
        order.add_argument("--arch", choices=sorted(ARCHITECTURES), default=None)
        order.add_argument("--wheel", type=Path, required=True)
        order.add_argument("--output", type=Path, required=name == "rootfs")
    given = parser.parse_args()
    try:
        if given.order == "lock":
            return _lock()
        return _join() if given.order == "join" else _make(given)
    except ImageError as error:
        print(f"image: {error}", file=sys.stderr)
        return 1


def _lock() -> int:
    packages = {
        architecture: [package._asdict() for package in resolve(architecture, cache())]
        for architecture in ARCHITECTURES
    }
    day = datetime.now(UTC).strftime("%Y%m%dT000000Z")
    LOCK.write_text(json.dumps({"day": day, "packages": packages}, indent=1) + "\n")
    return 0


def _make(given: argparse.Namespace) -> int:
    architecture = given.arch or own_architecture()
    uv = find_uv()
    tree = assemble(architecture, given.wheel, requirements(PROJECT, uv), uv)
    if given.order == "rootfs":
        unpack(tree, given.output, _when())
        return 0
    version = given.wheel.name.split("-")[1]
    identity = Identity(version, _revision(), _when(), architecture)
    place = given.output or PROJECT / "dist" / f"stoker-image-{architecture}.tar"
    digest = write_archive(place, tree.tar(identity.when), identity)
    inside = bill(digest, identity, read_lock(LOCK, architecture)[1], distributions(tree))
    place.with_suffix(".spdx.json").write_bytes(inside)
    print(f"{place} {digest} {place.stat().st_size / 1e6:.1f} MB")
    return 0


def _join() -> int:
    folder = PROJECT / "dist"
    place = folder / "stoker-image.tar"
    parts = [folder / f"stoker-image-{architecture}.tar" for architecture in sorted(ARCHITECTURES)]
    print(f"{place} {join_archives(place, parts, _when())}")
    return 0


def _when() -> int:
    """Of the last commit, so that the same source gives the same bytes."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct") or 0)


def _revision() -> str:
    return os.environ.get("STOKER_REVISION") or _git("rev-parse", "HEAD")


def _git(*arguments: str) -> str:
    argv = ["git", "-C", str(PROJECT), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
