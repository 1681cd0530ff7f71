"""The image that `make image` made, from the outside and from the inside.

Its root filesystem is entered with chroot in a mount namespace: read-only, with a
/tmp of its own, as a user without a name, as a container would be. For that these
tests must be run by root; `make test-image` makes the image first.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from stoker.cli.exit_codes import ExitCode
from stoker_image.archives import ENVIRONMENT
from stoker_image.assembling import PROJECT, assemble, find_uv
from stoker_image.wheels import own_architecture, requirements
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.commit_signers import ssh_signer
from stoker_testkit.repositories.git_ssh_server import GitSshServer

pytestmark = pytest.mark.long

PAGE = PROJECT / "docs" / "image.md"
NAMELESS = (2003, 1000620000)  # of a gateway, and one that a cluster hands out
MACHINES = {"amd64": 62, "arm64": 183}  # as ELF numbers them
# What a runtime does for a container; the folder that is a volume there is in /tmp here.
_ENTER = """
mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && mount -t tmpfs tmpfs "$0/tmp" &&
mkdir "$0/tmp/volume" && mount --bind "$1" "$0/tmp/volume" && mount --rbind /dev "$0/dev" &&
mount -t proc proc "$0/proc" || exit 125
who=$2; shift 2; PATH=$PATH:/usr/sbin:/sbin
exec setpriv --no-new-privs chroot --userspec="$who:$who" --groups= "$0" "$@"
"""


class Image:
    """The archive, and its root filesystem as a folder."""

    def __init__(self, archive: Path, place: Path) -> None:
        self.archive = archive
        with tarfile.open(archive) as files:
            self.files = {member.name: files.extractfile(member).read() for member in files}  # type: ignore[union-attr]
        index = json.loads(self.files["index.json"])
        self.digest: str = index["manifests"][0]["digest"]
        self.manifest = self.blob(self.digest)
        self.config = self.blob(self.manifest["config"]["digest"])
        self.root = place / "root"
        layer = place / "layer.tar.gz"
        layer.write_bytes(self.raw(self.manifest["layers"][0]["digest"]))
        self.root.mkdir()
        subprocess.run(["tar", "--extract", "--file", layer, "--directory", self.root], check=True)

    def raw(self, digest: str) -> bytes:
        return self.files[f"blobs/sha256/{digest.removeprefix('sha256:')}"]

    def blob(self, digest: str) -> Any:
        return json.loads(self.raw(digest))

    def run(self, user: int, volume: Path, *argv: str) -> subprocess.CompletedProcess[str]:
        enter = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _ENTER]
        clean = ["/usr/bin/env", "-i", *(f"{name}={value}" for name, value in ENVIRONMENT.items())]
        command = [*enter, str(self.root), str(volume), str(user), *clean, *argv]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    def says(self, *argv: str, user: int = 2003) -> str:
        done = self.run(user, self.root.parent, *argv)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout.strip()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    assert os.geteuid() == 0, "these tests enter a root filesystem with chroot: run them as root"
    archive = PROJECT / "dist" / f"stoker-image-{own_architecture()}.tar"
    assert archive.is_file(), "make image makes it"
    return Image(archive, tmp_path_factory.mktemp("image"))


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    place = tmp_path / "volume"
    (place / "data").mkdir(parents=True)
    return place


def wheel() -> Path:
    return next((PROJECT / "dist").glob("stoker-*.whl"))


def owned(volume: Path, user: int) -> None:
    for path in (volume, *volume.rglob("*")):
        os.chown(path, user, user)


# From the outside.


def test_a_second_build_from_the_same_wheel_is_the_same_image(image: Image, tmp_path: Path) -> None:
    again = tmp_path / "again.tar"
    command = [sys.executable, "-m", "stoker_image", "image", f"--wheel={wheel()}", f"--output={again}"]
    when = datetime.fromisoformat(image.config["created"]).timestamp()
    environment = {
        **os.environ,
        "PYTHONPATH": "packaging/image",
        "SOURCE_DATE_EPOCH": f"{when:.0f}",
        "STOKER_REVISION": image.config["config"]["Labels"]["org.opencontainers.image.revision"],
    }
    subprocess.run(command, cwd=PROJECT, env=environment, check=True, capture_output=True)
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(image.archive.read_bytes()).digest()


def test_the_wheel_is_the_same_twice(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        command = [find_uv(), "build", "--wheel", "--quiet", f"--out-dir={tmp_path / name}"]
        subprocess.run(
            command, cwd=PROJECT, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}, check=True
        )
        made.append(next((tmp_path / name).glob("*.whl")).read_bytes())
    assert made[0] == made[1]


@pytest.mark.parametrize("architecture", MACHINES)
def test_every_binary_is_for_the_processor_of_the_image(architecture: str) -> None:
    uv = find_uv()
    tree = assemble(architecture, wheel(), requirements(PROJECT, uv), uv)
    binaries = {path: node.content for path, node in tree if node.content.startswith(b"\x7fELF")}
    assert len(binaries) > 150
    wrong = [path for path, content in binaries.items() if content[18] != MACHINES[architecture]]
    assert wrong == []
    assert {"usr/bin/python3.11", "usr/bin/ssh", "usr/lib/git-core/git", "usr/bin/busybox"} <= set(binaries)


def test_no_user_is_root_and_no_file_makes_one(image: Image) -> None:
    assert image.config["config"]["User"] == "65532:65532"
    assert [
        path for path in image.root.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o6000
    ] == []


def test_there_is_no_compiler_no_installer_and_no_package_manager(image: Image) -> None:
    names = {
        path.name
        for folder in ("usr/bin", "usr/sbin", "usr/local/bin")
        for path in (image.root / folder).iterdir()
    }
    assert not names & {
        "gcc",
        "cc",
        "ld",
        "as",
        "make",
        "pip",
        "pip3",
        "apt",
        "apt-get",
        "dpkg",
        "perl",
        "curl",
        "uv",
    }
    assert not list(image.root.rglob("ensurepip"))
    assert not list(image.root.rglob("pip"))
    assert not list(image.root.rglob("*.h"))


def test_it_is_as_large_as_the_page_says(image: Image) -> None:
    output = re.search(r"^\| size \| (\d+) MB packed, (\d+) MB unpacked \|$", PAGE.read_text(), re.MULTILINE)
    assert output
    packed = image.raw(image.manifest["layers"][0]["digest"])
    sizes = len(packed) / 1e6, len(gzip.decompress(packed)) / 1e6
    assert sizes == pytest.approx([float(size) for size in output.groups()], rel=0.03)


def test_the_list_of_contents_is_what_is_inside(image: Image) -> None:
    document = json.loads(image.archive.with_suffix(".spdx.json").read_text())
    packages = [one for one in document["packages"] if one["SPDXID"] != "SPDXRef-image"]
    debs = {one["name"] for one in packages if one["SPDXID"].startswith("SPDXRef-deb-")}
    assert debs == {path.name for path in (image.root / "var/lib/dpkg/status.d").iterdir()}
    versions = {
        one["name"]: one["versionInfo"] for one in packages if one["SPDXID"].startswith("SPDXRef-pypi-")
    }
    assert len(versions) == len(list(image.root.glob("usr/local/lib/python3.11/dist-packages/*.dist-info")))
    locked = (PROJECT / "uv.lock").read_text()
    for name, version in versions.items():
        if name != "stoker":
            assert f'name = "{name}"\nversion = "{version}"\n' in locked
    assert document["packages"][0]["checksums"][0]["checksumValue"] == image.digest.removeprefix("sha256:")


# From the inside.


@pytest.mark.parametrize("user", NAMELESS)
def test_a_private_repository_over_ssh_as_a_user_without_a_name(
    image: Image, git_ssh: GitSshServer, repositories: Path, volume: Path, user: int
) -> None:
    repository = Repository.create(repositories / "plant.git")
    repository.commit({"s/a": "1"})
    (volume / "key").write_bytes(git_ssh.authorized_key().read_bytes())
    (volume / "known_hosts").write_bytes(git_ssh.known_hosts.read_bytes())
    owned(volume, user)
    ours = "/tmp/volume"  # noqa: S108 - of the image
    done = image.run(
        user,
        volume,
        *("stoker", "sync", f"--repo={git_ssh.url('plant.git')}", "--ref=main", "--map=s:projects/P"),
        *(f"--data-dir={ours}/data", f"--cache-dir={ours}/cache", f"--ssh-key-file={ours}/key"),
        *(f"--known-hosts-file={ours}/known_hosts", "--require-known-hosts", "--output=json"),
    )
    assert done.returncode == ExitCode.DONE, (done.stdout, done.stderr)
    written = volume / "data/projects/P/a"
    assert (written.read_text(), written.stat().st_uid) == ("1", user)


@pytest.mark.parametrize("user", NAMELESS)
def test_a_signed_commit_is_checked_as_a_user_without_a_name(
    image: Image, git_ssh: GitSshServer, repositories: Path, volume: Path, tmp_path: Path, user: int
) -> None:
    repository = Repository.create(repositories / "plant.git")
    alice = ssh_signer(tmp_path, "alice")
    alice.commit(repository, {"s/a": "1"})
    (volume / "signers").write_bytes(b"alice@example.test " + alice.public + b"\n")
    (volume / "key").write_bytes(git_ssh.authorized_key().read_bytes())
    owned(volume, user)
    ours = "/tmp/volume"  # noqa: S108 - of the image
    command = [
        *("stoker", "sync", f"--repo={git_ssh.url('plant.git')}", "--ref=main", "--map=s:projects/P"),
        *(f"--data-dir={ours}/data", f"--cache-dir={ours}/cache", f"--ssh-key-file={ours}/key"),
        *("--verify-signatures=commit", f"--allowed-signers-file={ours}/signers"),
    ]
    done = image.run(user, volume, *command)
    assert done.returncode == ExitCode.DONE, (done.stdout, done.stderr)
    repository.commit({"s/a": "2"})
    assert image.run(user, volume, *command).returncode == ExitCode.STALLED
    assert (volume / "data/projects/P/a").read_text() == "1"


def test_the_root_is_read_only_and_tmp_is_enough(image: Image) -> None:
    assert image.says("stoker", "--version", user=65532).startswith("stoker ")
    done = image.run(2003, image.root.parent, "touch", "/x")
    assert "Read-only file system" in done.stderr


@pytest.mark.parametrize("name", ["stoker", "ignition-sync", "gitops-reverser"])
def test_each_name_of_the_program_starts(image: Image, name: str) -> None:
    assert "Usage:" in image.says(name, "--help")


def test_a_window_opens_by_the_clock_of_its_time_zone(image: Image) -> None:
    script = """
from datetime import UTC, datetime
from stoker.domain.intent.policies import MaintenanceWindowPolicy
from stoker.domain.schedule.maintenance_windows import is_open
window = [MaintenanceWindowPolicy("0 2 * * *", 3600, "America/Chicago")]
moments = [datetime(2026, month, 1, hour, 30, tzinfo=UTC) for month in (1, 7) for hour in (7, 8)]
print([is_open(window, moment) for moment in moments])
"""
    assert image.says("python3", "-I", "-c", script) == "[False, True, True, False]"


def test_a_shell_and_what_hooks_call_are_there(image: Image) -> None:
    script = "echo a b | sed s/a/c/ | tr -d ' ' > /tmp/x && cat /tmp/x && id -u && which git gpg wget"
    assert image.says("sh", "-c", script).splitlines() == [
        "cb",
        "2003",
        "/usr/bin/git",
        "/usr/bin/gpg",
        "/usr/bin/wget",
    ]


def test_every_library_that_a_binary_needs_is_there(image: Image) -> None:
    script = r"""
for file in $(find /usr -name '*.so*' -o -type f -perm -111); do
    [ "$(head -c 4 "$file" 2>/dev/null)" = "$(printf '\177ELF')" ] || continue
    needed=$("$(ls /lib/*-linux-gnu/ld-linux-*.so.*)" --list "$file" 2>/dev/null)
    case $needed in *"not found"*) echo "$file $needed" ;; esac
done
"""
    assert image.says("sh", "-c", script) == ""


def test_authorities_are_trusted_by_python(image: Image) -> None:
    script = "import ssl; print(len(ssl.create_default_context().get_ca_certs()) > 100)"
    assert image.says("python3", "-I", "-c", script) == "True"


def test_modules_come_compiled(image: Image) -> None:
    done = image.run(2003, image.root.parent, "python3", "-I", "-v", "-c", "import stoker.cli.main, json")
    assert done.returncode == 0
    for name in ("stoker/cli/__pycache__/main.cpython-311.pyc", "json/__pycache__/__init__.cpython-311.pyc"):
        assert any("code object from" in line and name in line for line in done.stderr.splitlines()), name
