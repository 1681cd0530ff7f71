"""Debian packages: which ones (the lock file), fetched and read.

`apt-get` decides what is needed and vouches for it by the archive's signature; that is
written to the lock file with a checksum for each package. An image is made from the
lock file alone: what does not match its checksum is refused. A version that has left
the mirror is asked of Debian's archive of all versions.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from stoker_image.commands import ImageError, ask, run
from stoker_image.contents import LEFT_OUT, SUITES, WANTED
from stoker_image.trees import Node

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
HELPER = "/usr/lib/apt/apt-helper"
_URI = re.compile(r"^'(?P<uri>[^']+)' (?P<file>\S+) ", re.M)
_FIELD = re.compile(r"^(?P<name>[A-Za-z0-9-]+): (?P<value>.*)$", re.M)


class Package(NamedTuple):
    name: str
    version: str
    architecture: str
    source: str
    path: str  # below a mirror, e.g. debian/pool/main/d/dash/dash_0.5.12-2_amd64.deb
    sha256: str


def mirror() -> str:
    return os.environ.get("STOKER_DEBIAN_MIRROR", "http://deb.debian.org").rstrip("/")


def read_lock(path: Path, architecture: str) -> tuple[str, list[Package]]:
    """The day of the lock and its packages."""
    lock = json.loads(path.read_text())
    if architecture not in lock["packages"]:
        raise ImageError(f"{path.name} knows no architecture {architecture}")
    return lock["day"], [Package(**package) for package in lock["packages"][architecture]]


def resolve(architecture: str, cache: Path) -> list[Package]:
    """What apt says the wanted packages need today, without what is left out."""
    state = cache / f"apt-{architecture}"
    for folder in ("lists/partial", "archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    (state / "status").write_text("")
    (state / "all.sources").write_text("\n".join(_stanza(suite) for suite in SUITES))
    settings = [
        f"APT::Architecture={architecture}",
        f"APT::Architectures={architecture}",
        f"Dir::Etc::sourcelist={state}/all.sources",
        "Dir::Etc::sourceparts=/dev/null",
        f"Dir::State={state}",
        f"Dir::State::status={state}/status",
        f"Dir::Cache={state}",
        "Acquire::Languages=none",
        "APT::Sandbox::User=root",
    ]
    options = [word for setting in settings for word in ("-o", setting)]
    ask(["apt-get", *options, "-qq", "update"])
    wanted = ["install", "-qq", "-y", "--print-uris", "--no-install-recommends", *WANTED]
    shown = {
        _named(found["file"]): found["uri"] for found in _URI.finditer(ask(["apt-get", *options, *wanted]))
    }
    found = set()
    # One question about all: apt reads its lists anew for each.
    for control in ask(["apt-cache", *options, "show", *(name for name, _ in shown)]).split("\n\n"):
        fields = {field["name"]: field["value"] for field in _FIELD.finditer(control)}
        uri = shown.get((fields.get("Package", ""), fields.get("Version", "")))
        if uri is not None and fields["Package"] not in LEFT_OUT:
            found.add(_package(fields, uri))
    if missing := {name for name, _ in shown} - {package.name for package in found} - LEFT_OUT:
        raise ImageError(f"apt-cache tells nothing of {', '.join(sorted(missing))}")
    return sorted(found)


def _has_checksum(file: Path, package: Package) -> bool:
    return hashlib.sha256(file.read_bytes()).hexdigest() == package.sha256


def fetch(package: Package, day: str, cache: Path) -> Path:
    """The package as a file, which has the checksum that the lock file says."""
    place = cache / "debs" / f"{package.sha256}.deb"
    if place.is_file():
        if _has_checksum(place, package):
            return place
        place.unlink()  # the cache is anybody's who may write there
    place.parent.mkdir(parents=True, exist_ok=True)
    archive, _, rest = package.path.partition("/")
    beside = place.with_suffix(f".{os.getpid()}.new")
    said = ""
    for uri in (f"{mirror()}/{package.path}", f"https://snapshot.debian.org/archive/{archive}/{day}/{rest}"):
        try:
            run([HELPER, "-o", "APT::Sandbox::User=root", "-qq", "download-file", uri, str(beside)])
        except ImageError as error:
            said = said or str(error)
            continue
        if _has_checksum(beside, package):
            return beside.replace(place)
        beside.unlink()
        said = said or f"what {uri} sends does not have the checksum of the lock file"
    raise ImageError(
        f"package {package.name} {package.version} cannot be fetched ({said}); "
        "if it left the mirror, bring the lock file up to date with: make image-lock"
    )


def members(deb: Path) -> Iterator[tuple[str, Node]]:
    """What the package would put on a disk; no file is setuid or belongs to anybody but root."""
    with tarfile.open(fileobj=io.BytesIO(run(["dpkg-deb", "--fsys-tarfile", str(deb)]))) as archive:
        for member in archive:
            path = member.name.removeprefix("./").rstrip("/")
            if path in {"", "."}:
                continue
            mode = member.mode & 0o1777
            if member.isdir():
                yield path, Node(mode, is_folder=True)
            elif member.issym():
                yield path, Node(0o777, target=member.linkname)
            else:
                file = archive.extractfile(member)  # a hard link is followed
                yield path, Node(mode, b"" if file is None else file.read())


def control(deb: Path) -> str:
    """The package's own description of itself."""
    return ask(["dpkg-deb", "--field", str(deb)])


def _named(file: str) -> tuple[str, str]:
    """Name and version of a package by the name that apt gives its file."""
    name, version, _ = file.split("_")
    return name, unquote(version)


def _package(fields: dict[str, str], uri: str) -> Package:
    archive = "debian-security" if "/debian-security/" in uri else "debian"
    return Package(
        name=fields["Package"],
        version=fields["Version"],
        architecture=fields["Architecture"],
        source=fields.get("Source", fields["Package"]).partition(" ")[0],
        path=f"{archive}/{fields['Filename']}",
        sha256=fields["SHA256"],
    )


def _stanza(suite: str) -> str:
    archive = "debian-security" if suite.endswith("-security") else "debian"
    return (
        f"Types: deb\nURIs: {mirror()}/{archive}\nSuites: {suite}\nComponents: main\nSigned-By: {KEYRING}\n"
    )
