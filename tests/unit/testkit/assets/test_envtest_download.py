"""The ready-made archive is taken when it can be had, and given up at once when not."""

from __future__ import annotations

import hashlib
import io
import os
import socket
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from stoker_testkit.assets.ensure_binaries import ALL, CONTROL_PLANE
from stoker_testkit.assets.envtest_download import CONTAINS, VERSION, fetch

ARCHITECTURES = ("amd64", "arm64")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        pass


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A release page's folder with a good archive for every kind of machine."""
    folder = tmp_path / "releases" / f"envtest-{VERSION}"
    folder.mkdir(parents=True)
    content = archive({name: f"program {name}".encode() for name in CONTAINS})
    for architecture in ARCHITECTURES:
        publish(folder, architecture, content, hashlib.sha512(content).hexdigest())
    return folder


@pytest.fixture
def address(published: Path) -> Iterator[str]:
    handler = partial(Quiet, directory=str(published.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    return made


def archive(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"controller-tools/envtest/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def publish(folder: Path, architecture: str, content: bytes, checksum: str) -> None:
    name = f"envtest-{VERSION}-linux-{architecture}.tar.gz"
    (folder / name).write_bytes(content)
    (folder / f"{name}.sha512").write_text(f"{checksum}  {name}\n")


def programs(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if os.access(path, os.X_OK)}


def test_brings_what_the_archive_holds(address: str, folder: Path) -> None:
    assert fetch(CONTROL_PLANE, folder, address)
    assert programs(folder) == set(CONTROL_PLANE)
    assert (folder / "etcd").read_bytes() == b"program etcd"


def test_is_not_tried_for_what_the_archive_does_not_hold(folder: Path) -> None:
    assert not fetch(ALL, folder, "http://never-asked.invalid")
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("address")
def test_a_wrong_checksum_brings_nothing(address: str, published: Path, folder: Path) -> None:
    for architecture in ARCHITECTURES:
        publish(published, architecture, archive({"etcd": b"evil"}), "0" * 128)
    assert not fetch(CONTROL_PLANE, folder, address)
    assert programs(folder) == set()


def test_an_archive_that_is_none_or_holds_too_little_brings_no_set(
    address: str, published: Path, folder: Path
) -> None:
    for content in (b"<html>maintenance</html>", archive({"etcd": b"alone"})):
        for architecture in ARCHITECTURES:
            publish(published, architecture, content, hashlib.sha512(content).hexdigest())
        assert not fetch(CONTROL_PLANE, folder, address)


def test_a_page_that_is_not_there_brings_nothing(address: str, published: Path, folder: Path) -> None:
    for file in published.iterdir():
        file.unlink()
    assert not fetch(CONTROL_PLANE, folder, address)


def test_a_server_that_says_nothing_is_given_up_in_time(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert not fetch(CONTROL_PLANE, folder, f"http://127.0.0.1:{port}", patience=0.3)
