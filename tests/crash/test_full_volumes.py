"""A volume that is really full, out of inodes or read-only loses nothing, and works again afterwards.

With the kernel's own errors where this machine lets us mount a small volume, and with
those of a failpoint where it does not.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stoker.domain.reasons import Reason
from stoker_testkit.command_fork_server import CommandResult, Commands
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.malicious_repository import Stamp, fingerprint

ROOMY = "size=8m,nr_inodes=1000,rw"
FILES = {f"s/{n}/resource.json": "1" for n in range(5)} | {f"s/{n}/view.json": "2" for n in range(5)}


def mount(place: Path, options: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@contextmanager
def mounted(place: Path, options: str) -> Iterator[bool]:
    able = mount(place, options)
    try:
        yield able
    finally:
        if able:
            subprocess.run(["umount", str(place)], check=True)


TROUBLES = {
    "no room": ("remount,size=64k", "enospc", "No space left on device"),
    "no inodes": ("remount,nr_inodes=40", "enospc", "No space left on device"),
    "read-only": ("remount,ro", "erofs", "Read-only file system"),
}


class Site:
    def __init__(self, place: Path, commands: Commands) -> None:
        self.data = place / "data"
        self.data.mkdir()
        self.repository = Repository.create(place / "r.git")
        self._arguments = [
            "sync",
            f"--repo={self.repository.path.as_uri()}",
            "--ref=main",
            "--map=s:d",
            f"--data-dir={self.data}",
            f"--cache-dir={place / 'cache'}",
            "--output=json",
        ]
        self._commands = commands

    def sync(self, *failures: str) -> CommandResult:
        return self._commands.run(*self._arguments, failures=failures)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Commands.ready() as commands:
        yield Site(tmp_path, commands)


def everything_but_the_audit(site: Site) -> dict[str, Stamp]:
    """What a failed sync must leave alone; its failure may be recorded, where there is room."""
    return {
        path: it
        for path, it in fingerprint(site.data).items()
        if Path(path).name not in ("audit.jsonl", "writer")
    }


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_volume_at_its_end_loses_nothing(site: Site, trouble: str) -> None:
    options, error, says = TROUBLES[trouble]
    with mounted(site.data, ROOMY) as real:
        site.repository.commit(FILES)
        assert site.sync().code == 0
        before = everything_but_the_audit(site)
        large = {f"s/new/{n}.bin": str(n) * 10_000 for n in range(30)}
        site.repository.commit(
            {**large, "s/0/view.json": "3", "s/1/resource.json": None, "s/1/view.json": None}
        )
        failures = () if real and mount(site.data, options) else (f"stage.write.before:7={error}",)
        ended = site.sync(*failures)
        assert ended.code == 3, ended
        assert ended.document["reason"] == Reason.DATA_VOLUME_FAILED
        assert says in ended.document["message"]
        assert everything_but_the_audit(site) == before
        assert not real or mount(site.data, f"remount,{ROOMY}")
        assert site.sync().code == 0
        found = {
            str(path.relative_to(site.data / "d")) for path in (site.data / "d").rglob("*") if path.is_file()
        }
        assert found == {path.removeprefix("s/") for path in site.repository.files()}
        assert site.sync().changed == []
