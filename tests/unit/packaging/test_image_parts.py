"""The parts that an image is assembled from: tree, trimming, packages, archive, list of contents."""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from stoker_image.archives import ENVIRONMENT, Identity, join_archives, write_archive
from stoker_image.assembling import LOCK, unpack
from stoker_image.boms import Distribution, bill, distributions
from stoker_image.commands import ImageError
from stoker_image.contents import APPLETS, ARCHITECTURES, LEFT_OUT, WANTED, is_trimmed
from stoker_image.debs import Package, fetch, members, read_lock
from stoker_image.settling import KEPT_FOLDERS, record, settle
from stoker_image.trees import Node, Tree, remove_empty_folders
from stoker_image.wheels import PLACE

WHEN = 1_700_000_000
IDENTITY = Identity("1.2.3", "0" * 40, WHEN, "arm64")


def entries(layer: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        return {member.name: member for member in archive}


def test_equal_contents_are_equal_bytes_whatever_came_first() -> None:
    one, other = Tree(), Tree()
    one.file("a/b", "x")
    one.link("c", "a/b")
    other.link("c", "a/b")
    other.file("a/b", b"x")
    assert one.tar(WHEN) == other.tar(WHEN)
    assert one.tar(WHEN) != one.tar(WHEN + 1)


def test_folders_come_before_what_is_in_them_and_all_belongs_to_root() -> None:
    tree = Tree()
    tree.file("usr/share/x/y", "1", 0o755)
    found = entries(tree.tar(WHEN))
    assert list(found) == ["usr", "usr/share", "usr/share/x", "usr/share/x/y"]
    assert {(member.uid, member.gid, member.mtime) for member in found.values()} == {(0, 0, WHEN)}
    assert found["usr/share/x/y"].mode == 0o755


def test_files_under_the_old_names_are_in_usr() -> None:
    tree = Tree()
    tree.file("bin/ls", "1")
    tree.file("lib64/ld.so", "2")
    settle(tree, "amd64")
    assert tree["usr/bin/ls"].content == b"1"
    assert tree["usr/lib64/ld.so"].content == b"2"
    assert {name: tree[name].target for name in ("bin", "lib", "lib64", "sbin")} == {
        "bin": "usr/bin",
        "lib": "usr/lib",
        "lib64": "usr/lib64",
        "sbin": "usr/sbin",
    }


def test_folders_that_nothing_is_left_in_go_and_mount_points_stay() -> None:
    tree = Tree()
    settle(tree, "arm64")
    tree.folder("usr/share/empty/deeper")
    remove_empty_folders(tree, KEPT_FOLDERS)
    assert "usr/share/empty" not in tree
    assert all(path in tree for path in KEPT_FOLDERS)
    assert tree["tmp"].mode == 0o1777
    assert "usr/sbin" in tree  # `sbin` leads there


def test_the_bundle_of_authorities_is_where_python_and_git_look() -> None:
    tree = Tree()
    tree.file("usr/share/ca-certificates/mozilla/B.crt", "two\n\n")
    tree.file("usr/share/ca-certificates/mozilla/A.crt", "one")
    settle(tree, "amd64")
    assert tree["etc/ssl/certs/ca-certificates.crt"].content == b"one\ntwo\n"
    assert tree["usr/lib/ssl/cert.pem"].target == "/etc/ssl/certs/ca-certificates.crt"


def test_an_applet_never_takes_the_place_of_a_program() -> None:
    tree = Tree()
    tree.file("bin/cat", "a real one", 0o755)
    settle(tree, "amd64")
    assert tree["usr/bin/cat"].content == b"a real one"
    assert tree["usr/bin/sed"].target == "busybox"
    assert "sh" not in APPLETS.split()  # Debian's own


def test_no_passwd_entry_hides_what_is_needed_for_users_without_one() -> None:
    tree = Tree()
    settle(tree, "amd64")
    ids = [line.split(":")[2] for line in tree["etc/passwd"].content.decode().splitlines()]
    assert ids == ["0", "65534", "65532"]


@pytest.mark.parametrize(
    ("path", "gone"),
    [
        ("usr/share/man/man1/git.1.gz", True),
        ("usr/share/doc/git/README.md", True),
        ("usr/share/doc/git/copyright", False),
        ("usr/share/zoneinfo/Europe/Berlin", False),
        ("usr/share/zoneinfo/right/Europe/Berlin", True),
        ("usr/lib/openssh/ssh-keysign", True),
        ("usr/bin/ssh", False),
        ("usr/bin/ssh-keygen", False),
        ("usr/bin/ssh-agent", True),
        ("usr/lib/git-core/git-remote-http", False),
        ("usr/lib/git-core/git-daemon", True),
        ("usr/lib/git-core/git", False),
        ("usr/lib/python3.11/ensurepip/__init__.py", True),
        ("usr/lib/python3.11/asyncio/__init__.py", False),
        ("usr/lib/x86_64-linux-gnu/libnss_wrapper.so", False),
    ],
)
def test_what_is_trimmed(path: str, gone: bool) -> None:
    assert is_trimmed(path) is gone


def test_the_lock_file_holds_the_same_packages_for_both_processors() -> None:
    locked = {architecture: read_lock(LOCK, architecture)[1] for architecture in ARCHITECTURES}
    names = {
        architecture: {package.name for package in packages} for architecture, packages in locked.items()
    }
    assert names["amd64"] == names["arm64"]
    assert names["amd64"] >= set(WANTED)
    assert not names["amd64"] & LEFT_OUT
    for architecture, packages in locked.items():
        assert {package.architecture for package in packages} <= {architecture, "all"}
        assert all(re.fullmatch(r"[0-9a-f]{64}", package.sha256) for package in packages)


def test_no_compiler_and_no_installer_is_wanted() -> None:
    names = {package.name for package in read_lock(LOCK, "amd64")[1]}
    assert not names & {
        "gcc",
        "g++",
        "cpp",
        "make",
        "python3-pip",
        "python3-venv",
        "dpkg",
        "apt",
        "perl-base",
    }


def test_an_architecture_that_is_not_locked_is_refused(tmp_path: Path) -> None:
    lock = tmp_path / "debian.lock.json"
    lock.write_text('{"day": "20260101T000000Z", "packages": {}}')
    with pytest.raises(ImageError, match="knows no architecture arm64"):
        read_lock(lock, "arm64")


@pytest.fixture
def deb(tmp_path: Path) -> Path:
    """A small real package with a program that would be setuid, a hard link and a symbolic one."""
    root = tmp_path / "package"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN" / "control").write_text(
        "Package: small\nVersion: 1:2-3\nArchitecture: all\nMaintainer: a <a@b.c>\nDescription: d\n"
    )
    (root / "bin").mkdir()
    (root / "bin" / "one").write_text("1")
    (root / "bin" / "one").chmod(0o4755)
    (root / "bin" / "same").hardlink_to(root / "bin" / "one")
    (root / "bin" / "two").symlink_to("one")
    place = tmp_path / "mirror" / "debian" / "small.deb"
    place.parent.mkdir(parents=True)
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "--build", root, place], check=True, capture_output=True
    )
    return place


def package(deb: Path, sha256: str = "") -> Package:
    found = hashlib.sha256(deb.read_bytes()).hexdigest()
    return Package("small", "1:2-3", "all", "small", "debian/small.deb", sha256 or found)


def test_no_file_of_a_package_stays_setuid(deb: Path) -> None:
    found = dict(members(deb))
    assert found["bin/one"] == Node(0o755, b"1")
    assert found["bin/same"].content == b"1"
    assert found["bin/two"].target == "one"


def test_a_package_comes_from_the_mirror_and_is_kept(
    deb: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_DEBIAN_MIRROR", f"copy://{tmp_path}/mirror")
    cache = tmp_path / "cache"
    got = fetch(package(deb), "20260101T000000Z", cache)
    assert got.read_bytes() == deb.read_bytes()
    wanted = package(deb)
    deb.unlink()
    assert fetch(wanted, "20260101T000000Z", cache) == got


def test_a_package_with_another_checksum_is_refused(
    deb: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_DEBIAN_MIRROR", f"copy://{tmp_path}/mirror")
    with pytest.raises(ImageError, match="does not have the checksum of the lock file"):
        fetch(package(deb, "0" * 64), "20260101T000000Z", tmp_path / "cache")
    assert not list((tmp_path / "cache" / "debs").glob("*.deb"))


def test_scanners_find_each_package(deb: Path) -> None:
    tree = Tree()
    record(tree, "small", "Package: small\nVersion: 1:2-3\n")
    status = tree["var/lib/dpkg/status.d/small"].content.decode()
    assert status == "Package: small\nStatus: install ok installed\nVersion: 1:2-3\n"


def read_archive(place: Path) -> dict[str, Any]:
    with tarfile.open(place) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]


def test_the_archive_is_an_oci_layout_whose_digests_fit(tmp_path: Path) -> None:
    tree = Tree()
    tree.file("etc/x", "1")
    layer = tree.tar(WHEN)
    digest = write_archive(tmp_path / "image.tar", layer, IDENTITY)
    files = read_archive(tmp_path / "image.tar")
    for name, content in files.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"
    index = json.loads(files["index.json"])
    assert {entry["digest"] for entry in index["manifests"]} == {digest}
    assert [entry["annotations"]["io.containerd.image.name"] for entry in index["manifests"]] == [
        "docker.io/library/stoker:1.2.3",
        "docker.io/library/stoker:dev",
    ]
    manifest = json.loads(files[f"blobs/sha256/{digest.removeprefix('sha256:')}"])
    config = json.loads(files[f"blobs/sha256/{manifest['config']['digest'].removeprefix('sha256:')}"])
    assert (config["architecture"], config["os"]) == ("arm64", "linux")
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    assert config["config"]["User"] == "65532:65532"
    assert config["config"]["Entrypoint"] == ["stoker"]
    assert [f"{name}={value}" for name, value in ENVIRONMENT.items()] == config["config"]["Env"]
    assert json.loads(files["manifest.json"])[0]["RepoTags"] == ["stoker:1.2.3", "stoker:dev"]


def test_the_archive_is_the_same_twice(tmp_path: Path) -> None:
    tree = Tree()
    tree.file("etc/x", "1")
    for name in ("one.tar", "two.tar"):
        write_archive(tmp_path / name, tree.tar(WHEN), IDENTITY)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()


def test_archives_of_two_processors_become_one_with_an_index_of_both(tmp_path: Path) -> None:
    digests, places = {}, []
    for architecture in ("amd64", "arm64"):
        tree = Tree()
        tree.file("etc/x", architecture)
        places.append(tmp_path / f"{architecture}.tar")
        identity = IDENTITY._replace(architecture=architecture)
        digests[architecture] = write_archive(places[-1], tree.tar(WHEN), identity)
    digest = join_archives(tmp_path / "both.tar", places, WHEN)
    files = read_archive(tmp_path / "both.tar")
    (outer,) = json.loads(files["index.json"])["manifests"]
    assert outer["digest"] == digest
    index = json.loads(files[f"blobs/sha256/{digest.removeprefix('sha256:')}"])
    assert {one["platform"]["architecture"]: one["digest"] for one in index["manifests"]} == digests
    for place in places:
        blobs = {name: content for name, content in read_archive(place).items() if name.startswith("blobs/")}
        assert blobs.items() <= files.items()
    assert join_archives(tmp_path / "again.tar", places, WHEN) == digest
    assert (tmp_path / "again.tar").read_bytes() == (tmp_path / "both.tar").read_bytes()


def test_a_folder_holds_what_the_archive_holds(tmp_path: Path) -> None:
    tree = Tree()
    tree.file("usr/bin/x", "1", 0o755)
    tree.raw_link("bin", "usr/bin")
    tree.folder("tmp", 0o1777)
    unpack(tree, tmp_path / "root", WHEN)
    root = tmp_path / "root"
    assert (root / "usr/bin/x").stat().st_mode & 0o7777 == 0o755
    assert (root / "tmp").stat().st_mode & 0o7777 == 0o1777
    assert {path.lstat().st_mtime for path in root.rglob("*")} == {WHEN}


def test_the_list_of_contents_names_debian_and_python() -> None:
    tree = Tree()
    head = (
        "Metadata-Version: 2.4\nName: Foo_Bar\nVersion: 1.0\nLicense-Expression: MIT OR Apache-2.0\n\nwords\n"
    )
    tree.file(f"{PLACE}/foo_bar-1.0.dist-info/METADATA", head)
    found = list(distributions(tree))
    assert found == [Distribution("Foo_Bar", "1.0", "MIT OR Apache-2.0")]
    deb = Package("libstdc++6", "1:2+b1", "arm64", "gcc-12", "debian/pool/x.deb", "a" * 64)
    document = json.loads(bill(f"sha256:{'b' * 64}", IDENTITY, [deb], found))
    assert document["spdxVersion"] == "SPDX-2.3"
    assert document["creationInfo"]["created"] == "2023-11-14T22:13:20Z"
    packages = {one["SPDXID"]: one for one in document["packages"]}
    assert packages["SPDXRef-image"]["licenseDeclared"] == "Apache-2.0"
    locators = [one["externalRefs"][0]["referenceLocator"] for one in packages.values()]
    assert locators[1:] == [
        "pkg:deb/debian/libstdc%2B%2B6@1%3A2%2Bb1?arch=arm64&distro=debian-12",
        "pkg:pypi/foo-bar@1.0",
    ]
    assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", reference) for reference in packages)
    related = [(one["relationshipType"], one["relatedSpdxElement"]) for one in document["relationships"]]
    assert related[0] == ("DESCRIBES", "SPDXRef-image")
    assert {reference for kind, reference in related[1:] if kind == "CONTAINS"} == set(packages) - {
        "SPDXRef-image"
    }
