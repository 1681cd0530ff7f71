"""`stoker sync` as a process: real git over HTTP, a real disk, and no mercy."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from stoker.agent.sync.jobs import SyncJob
from stoker.agent.sync.open_source import open_keeper
from stoker.domain.errors import Misconfigured, Wait
from stoker.domain.intent.files import FileMapping, FilesIntent
from stoker.domain.intent.source import GitAuthKind, GitAuthPolicy, SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.refs import GitRef, RepoUrl
from stoker.fs.data_folder import DataFolder
from stoker.fs.ledger_store import lock_folder
from stoker_testkit.repositories.bare_repository import Repository, executable, symlink
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.secret_leaks.process_command_lines import running
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually, eventually_async

TOKEN = planted("git-token")
PROGRAM = [sys.executable, "-c", "from stoker.cli.sync.sync import sync_command; sync_command()"]


class Site:
    """A repository behind a server that wants a token, and a gateway's data folder."""

    def __init__(self, tmp_path: Path, server: GitHttpServer) -> None:
        self.repository = Repository.create(server.root / "plant.git")
        self.server = server
        server.users["x-access-token"] = TOKEN
        self.url = server.url("plant.git")
        self.data = tmp_path / "data"
        self.cache = tmp_path / "cache"
        self.token_file = tmp_path / "token"
        self.token_file.write_text(TOKEN + "\n")
        (self.data / "projects/other").mkdir(parents=True)
        (self.data / "projects/other/x").write_text("theirs")

    def command(self, *options: str, ref: str = "main", mapping: str = "services/p:projects/P") -> list[str]:
        return [
            *PROGRAM,
            f"--repo={self.url}",
            f"--ref={ref}",
            f"--data-dir={self.data}",
            f"--cache-dir={self.cache}",
            f"--token-file={self.token_file}",
            f"--map={mapping}",
            *options,
        ]

    def run(self, *options: str, ref: str = "main", mapping: str = "services/p:projects/P") -> CommandResult:
        done = subprocess.run(
            self.command("--output=json", *options, ref=ref, mapping=mapping),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert TOKEN not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return CommandResult(done.returncode, json.loads(done.stdout))

    def files(self, below: str = "projects/P") -> dict[str, str]:
        place = self.data / below
        return {str(path.relative_to(place)): path.read_text() for path in place.rglob("*") if path.is_file()}


class CommandResult:
    """An exit code and the JSON that was printed."""

    def __init__(self, code: int, document: dict[str, object]) -> None:
        self.code = code
        self.document = document

    def paths(self, key: str) -> list[str]:
        items = cast("list[str | dict[str, str]]", self.document[key])
        return [item if isinstance(item, str) else item["path"] for item in items]


@pytest.fixture
def site(tmp_path: Path, git_http: GitHttpServer) -> Site:
    return Site(tmp_path, git_http)


def written(data: Path) -> dict[Path, int]:
    """When each file was written, but for the one that says which process writes now."""
    writer = data / ".sync-state" / "writer"
    return {path: path.stat().st_mtime_ns for path in data.rglob("*") if path != writer}


def test_a_first_sync_a_second_one_a_change_and_a_deletion(site: Site) -> None:
    first = site.repository.commit(
        {
            "services/p/a/view.json": "1",
            "services/p/a/resource.json": "1",
            "services/p/run": executable("x"),
            "other": "o",
        }
    )
    ended = site.run()
    assert ended.code == 0
    assert ended.document["commit"] == first
    assert ended.document["ref"] == "main"
    assert ended.paths("added") == ["projects/P/a/view.json", "projects/P/run", "projects/P/a/resource.json"]
    assert ended.document["bytesWritten"] == 3
    assert site.files() == {"a/view.json": "1", "a/resource.json": "1", "run": "x"}
    assert os.access(site.data / "projects/P/run", os.X_OK)

    before = written(site.data)
    ended = site.run()
    assert ended.code == 0
    assert [ended.paths(key) for key in ("added", "modified", "deleted")] == [[], [], []]
    assert written(site.data) == before

    site.repository.commit({"services/p/a/view.json": "2", "services/p/run": None, "services/p/b": "new"})
    ended = site.run()
    assert ended.code == 0
    assert ended.paths("added") == ["projects/P/b"]
    assert ended.paths("modified") == ["projects/P/a/view.json"]
    assert ended.paths("deleted") == ["projects/P/run"]
    assert site.files() == {"a/view.json": "2", "a/resource.json": "1", "b": "new"}
    assert site.files("projects/other") == {"x": "theirs"}


def test_the_report_has_every_key_that_was_promised(site: Site) -> None:
    site.repository.commit({"services/p/a": "1", "services/p/link": symlink("a"), "services/p/x.bak": "1"})
    (site.data / "projects/P").mkdir()
    (site.data / "projects/P/theirs").touch()
    ended = site.run("--exclude=**/*.bak")
    assert ended.code == 0
    assert {
        "commit",
        "ref",
        "added",
        "modified",
        "deleted",
        "skipped",
        "errors",
        "conflicts",
        "durationSeconds",
        "bytesWritten",
        "planDigest",
        "orphansKept",
        "notOurs",
    } <= ended.document.keys()
    assert sorted(ended.paths("skipped")) == ["projects/P/x.bak", "services/p/link"]
    assert ended.paths("notOurs") == ["projects/P/theirs"]
    assert ended.paths("orphansKept") == []


def test_text_output_says_what_was_done_line_by_line(site: Site) -> None:
    site.repository.commit({"services/p/a": "1"})
    done = subprocess.run(site.command(), capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "added projects/P/a"
    assert done.stdout.splitlines()[-1].endswith(": 1 added")


def test_variables_files_tags_and_commits(site: Site) -> None:
    first = site.repository.commit({"lines/l1/a": "1", "plant.json": "1"})
    site.repository.tag("v1", first, message="Release")
    site.repository.commit({"lines/l1/a": "2"})
    options = ("--var=line=l1", "--map-file=plant.json:config/plant.json")
    mapping = "lines/{{.Vars.line}}:projects/{{.Vars.line}}"
    for ref in ("v1", first, "refs/tags/v1"):
        assert site.run(*options, ref=ref, mapping=mapping).document["commit"] == first
    assert site.files("projects/l1") == {"a": "1"}
    assert site.files("config") == {"plant.json": "1"}


def test_a_dry_run_says_the_same_and_leaves_no_trace(site: Site) -> None:
    site.repository.commit({"services/p/a": "1"})
    dry = site.run("--dry-run")
    assert dry.code == 0
    assert dry.document["dryRun"] is True
    assert sorted(path.name for path in site.data.iterdir()) == ["projects"]
    assert not (site.data / "projects/P").exists()
    real = site.run()
    assert real.document["planDigest"] == dry.document["planDigest"]
    assert real.paths("added") == dry.paths("added")


def test_an_emptied_source_stalls_and_changes_nothing(site: Site) -> None:
    site.repository.commit({"services/p/a": "1"})
    site.run()
    site.repository.commit({"other": "1"}, replace=True)
    ended = site.run()
    assert ended.code == 3
    assert ended.document["reason"] == "SourceEmpty"
    assert site.files() == {"a": "1"}


def test_a_mass_deletion_stalls_until_its_plan_is_approved(site: Site) -> None:
    site.repository.commit({f"services/p/{n}": "1" for n in range(60)})
    site.run()
    site.repository.commit({f"services/p/{n}": None for n in range(1, 60)})
    ended = site.run()
    assert ended.code == 3
    assert ended.document["reason"] == "DeletionBudgetExceeded"
    assert len(site.files()) == 60
    dry = site.run("--dry-run")
    assert dry.code == 3
    assert len(dry.paths("deleted")) == 59
    digest = str(dry.document["planDigest"])
    assert digest in str(ended.document["message"])
    assert site.run(f"--approve-plan={'0' * 64}").code == 3
    assert site.run(f"--approve-plan={digest}").code == 0
    assert site.files() == {"0": "1"}


@pytest.mark.parametrize("misspelt", ["project/P", "projects"], ids=["another folder", "the folder above"])
def test_a_misspelt_destination_deletes_nothing_until_its_plan_is_approved(site: Site, misspelt: str) -> None:
    site.repository.commit({f"services/p/{n}": "1" for n in range(7)})
    assert site.run().code == 0
    typo = f"services/p:{misspelt}"
    ended = site.run(mapping=typo)
    assert ended.code == 3
    assert ended.document["reason"] == "DestinationUnmapped"
    assert "--approve-plan" in str(ended.document["message"])
    assert len(site.files()) == 7
    assert not (site.data / misspelt / "0").exists(), "nothing was added either"
    digest = str(site.run("--dry-run", mapping=typo).document["planDigest"])
    assert digest in str(ended.document["message"])
    assert site.run(f"--approve-plan={digest}", mapping=typo).code == 0
    assert not (site.data / "projects/P").exists()
    assert all((site.data / misspelt / str(n)).is_file() for n in range(7))


@pytest.mark.parametrize("kept", [0, 1], ids=["replaced by another file", "all but one"])
def test_most_of_a_small_project_is_not_deleted_without_approval(site: Site, kept: int) -> None:
    site.repository.commit({f"services/p/{n}": "1" for n in range(40)})
    assert site.run().code == 0
    site.repository.commit({f"services/p/{n}": None for n in range(kept, 40)} | {"services/p/new": "1"})
    ended = site.run()
    assert ended.code == 3
    assert ended.document["reason"] == "DeletionBudgetExceeded"
    assert len(site.files()) == 40


def test_an_approval_of_another_plan_is_an_error_that_names_the_plan_there_is(site: Site) -> None:
    site.repository.commit({"services/p/a": "1"})
    digest = str(site.run("--dry-run").document["planDigest"])
    ended = site.run(f"--approve-plan={'0' * 64}")
    assert (ended.code, ended.document["reason"]) == (3, "ApprovalStale")
    assert digest in str(ended.document["message"])
    assert site.files() == {}
    assert site.run(f"--approve-plan={digest}").code == 0
    assert site.files() == {"a": "1"}
    ended = site.run(f"--approve-plan={digest}")
    assert (ended.code, ended.document["reason"]) == (3, "ApprovalStale")
    assert "nothing to do" in str(ended.document["message"])
    assert site.run().document["planDigest"] is None


def test_a_plan_names_one_digest_once_and_an_empty_one_none(site: Site) -> None:
    (site.data / "projects/P").mkdir()
    (site.data / "projects/P/theirs").write_text("theirs")
    site.repository.commit({"services/p/a": "1"})

    def planned(*options: str) -> str:
        done = subprocess.run(
            site.command("--dry-run", *options), capture_output=True, text=True, check=False, timeout=60
        )
        return done.stdout

    mirrored = planned("--orphans=mirror")
    digests = re.findall(r"[0-9a-f]{64}", mirrored)
    assert len(digests) == 1
    assert "mirror projects/P: files that Stoker did not write are deleted" in mirrored
    assert site.run("--orphans=mirror", f"--approve-plan={digests[0]}").paths("deleted") == [
        "projects/P/theirs"
    ], "the one digest is the one that counts for kept files"
    nothing = planned("--orphans=mirror")
    assert "nothing to do" in nothing
    assert not re.findall(r"[0-9a-f]{64}", nothing)


def test_a_held_plan_names_its_digest_once(site: Site) -> None:
    site.repository.commit({"services/p/a": "1"})
    site.run()
    done = subprocess.run(
        site.command("--dry-run", mapping="services/p:q"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert len(re.findall(r"[0-9a-f]{64}", done.stdout)) == 1


def test_by_default_what_others_put_below_a_managed_path_stays_and_is_named(site: Site) -> None:
    site.repository.commit({"services/p/a": "1", "services/p/b": "1"})
    site.run()
    (site.data / "projects/P/theirs").write_text("theirs")
    site.repository.commit({"services/p/b": None})
    ended = site.run()
    assert (ended.code, ended.paths("deleted")) == (0, ["projects/P/b"])
    assert ended.paths("notOurs") == ["projects/P/theirs"]
    assert cast("dict[str, list[str]]", ended.document["drift"])["extra"] == ["projects/P/theirs"]
    assert site.files() == {"a": "1", "theirs": "theirs"}


def test_what_cannot_be_delivered_makes_a_partial_sync(site: Site) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 1\n"
    site.repository.commit(
        {"services/p/data.bin": pointer, "services/p/resource.json": "1", "services/p/q/a": "1"}
    )
    ended = site.run()
    assert ended.code == 1
    assert ended.paths("errors") == ["projects/P/data.bin"]
    assert ended.paths("conflicts") == ["projects/P/resource.json"]
    assert site.files() == {"q/a": "1"}


@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        (("--ref=nope",), 2, "RefNotFound"),
        (("--ref=-x",), 2, "InvalidValue"),
        (("--repo=ftp://example.test/r.git",), 2, "InvalidValue"),
        (("--repo=FILE:///nowhere",), 2, "InvalidValue"),
        (("--repo=./plant.git",), 2, "InvalidValue"),
        (("--repo=git@example.test:r.git",), 2, "Misconfigured"),
        (("--map=nothing",), 2, "InvalidValue"),
        (("--map=a:db",), 2, "InvalidValue"),
        (("--map=a:projects:x",), 2, "InvalidValue"),
        (("--map=a:ignition.conf",), 2, "InvalidValue"),
        (("--map=a:../x",), 2, "InvalidValue"),
        (("--map={{.Vars.none}}:x",), 2, "TemplateResolutionFailed"),
        (("--var=x",), 2, "InvalidValue"),
        (("--exclude=[",), 2, "InvalidValue"),
        (("--data-dir=/nowhere",), 2, "Misconfigured"),
        (("--data-dir=/dev/null",), 2, "Misconfigured"),
        (("--token-file=/nowhere",), 2, "Misconfigured"),
        (("--token-file=/dev/null",), 2, "Misconfigured"),
        (("--map=gone:x",), 3, "SourceEmpty"),
        (("--username=somebody",), 4, "SourceAuthFailed"),
        (("--repo=http://127.0.0.1:1/r.git",), 4, "SourceUnreachable"),
        (("--repo=file:///nowhere",), 4, "SourceUnreachable"),
    ],
)
def test_a_sync_that_cannot_run_ends_with_its_code_and_reason(
    site: Site, options: tuple[str, ...], code: int, reason: str
) -> None:
    site.repository.commit({"services/p/a": "1"})
    ended = site.run(*options)
    assert (ended.code, ended.document["reason"]) == (code, reason)
    assert not (site.data / "projects/P").exists()


def test_errors_go_to_standard_error_as_one_line(site: Site) -> None:
    site.repository.commit({"a": "1"})
    done = subprocess.run(site.command(ref="nope"), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("stoker sync: RefNotFound: ref 'nope'")
    assert len(done.stderr.splitlines()) == 1


def test_a_missing_option_is_wrong_input(site: Site) -> None:
    done = subprocess.run([*PROGRAM, f"--repo={site.url}"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--ref" in done.stderr


def test_the_token_is_in_no_command_line_file_or_output(site: Site) -> None:
    site.repository.commit({f"services/p/{n}": str(n) for n in range(300)})
    lines: set[str] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            lines.update(running().values())

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        site.run()
        site.server.users["x-access-token"] = planted("rotated-token")
        assert site.run().code == 4
    finally:
        done.set()
        watching.join()
    assert any(f"--token-file={site.token_file}" in line for line in lines)
    assert not any(TOKEN in line for line in lines)
    files = [path for folder in (site.cache, site.data) for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 300
    assert not any(TOKEN.encode() in path.read_bytes() for path in files)


def test_aiohttp_is_not_loaded_for_a_sync() -> None:
    ours = ", ".join(f"stoker.cli.sync.{name}" for name in ("sync", "sync_request", "sync_setup"))
    code = f"import {ours}, sys; print(*sys.modules)"
    alone = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=alone
    )
    modules = loaded.stdout.split()
    assert "stoker.fs.apply_plan" in modules
    assert not [name for name in modules if name.startswith(("aiohttp", "stoker.kube", "stoker.api"))]
    assert not {"msgspec", "yaml", "rich", "uvloop", "shutil", "tempfile", "random", "difflib"} & {*modules}


COUNT = 1500


def staged(site: Site) -> int:
    return sum(len(files) for _, _, files in os.walk(site.data / ".sync-staging"))


def halted(site: Site, moment: Callable[[Site], bool]) -> subprocess.Popen[bytes]:
    """A sync that was paused in that moment; one that slips past it is begun anew."""
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        # The job of a shell's background ignores SIGINT, and so would all that it starts.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        process = subprocess.Popen(
            site.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        signal.signal(signal.SIGINT, before)
        eventually(
            lambda process=process: moment(site) or process.poll() is not None,  # type: ignore[misc]
            timeout=60,
            message="the moment has come",
            interval=0.0005,
        )
        if process.returncode is None:
            os.kill(process.pid, signal.SIGSTOP)  # Popen would look, and bury, one that ended just now
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                process.returncode = os.waitstatus_to_exitcode(status)  # it ended by itself just before
            elif moment(site):
                return process
            else:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        shutil.rmtree(site.data)
        site.data.mkdir()
    raise AssertionError("no sync could be halted in that moment")


def published(site: Site) -> int:
    return sum(1 for path in (site.data / "projects/P").rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(lambda site: any(site.cache.glob("mirrors/*/objects/pack/*")), id="fetching"),
        pytest.param(lambda site: staged(site) > COUNT // 4, id="staging"),
        pytest.param(lambda site: published(site) > 5, id="publishing"),
        pytest.param(lambda site: published(site) > COUNT * 2 // 3, id="late"),
    ],
)
def test_after_a_kill_in_the_middle_the_next_sync_converges(
    site: Site, moment: Callable[[Site], bool]
) -> None:
    first = {f"services/p/{n % 40}/{n}": str(n) for n in range(COUNT)}
    site.repository.commit(first)
    process = halted(site, moment)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    written = site.files()
    assert all(first[f"services/p/{path}"] == content for path, content in written.items())

    # Between the kill and the next pass the repository moves on: half of the files are gone from it.
    later = {path: content for path, content in first.items() if int(content) % 2} | {"services/p/new": "1"}
    site.repository.commit(dict(later), replace=True)
    ended = site.run()
    if ended.code == 3:  # more than the budget was written before the kill, and would be deleted now
        ended = site.run(f"--approve-plan={str(ended.document['message']).split('plan ')[1][:64]}")
    assert ended.code == 0
    assert site.files() == {path.removeprefix("services/p/"): content for path, content in later.items()}
    assert sorted(path.name for path in site.data.iterdir()) == [".sync-state", "projects"]
    again = site.run()
    assert [again.paths(key) for key in ("added", "modified", "deleted", "orphansKept")] == [[], [], [], []]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_sync_stops_in_order(site: Site, number: signal.Signals) -> None:
    site.repository.commit({f"services/p/{n}": str(n) for n in range(COUNT)})
    # Early: a signal that comes when all is staged finds a sync that is done before anybody looks.
    process = halted(site, lambda site: 10 < staged(site) < COUNT // 5)
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    assert process.wait(60) > 0  # ended by itself, not by the signal
    assert staged(site) == 0
    assert site.run().code == 0
    assert len(site.files()) == COUNT


async def test_a_sync_that_is_cancelled_twice_still_ends_before_it_unlocks_the_data_folder(
    site: Site,
) -> None:
    site.repository.commit({"services/p/large": b"\0" * (96 << 20), "services/p/more": "1"})
    site.server.users.clear()
    source = SourceIntent(RepoUrl(site.url), GitRef("main"))
    intent = FilesIntent((FileMapping("services/p", "projects/P"),))
    call = asyncio.ensure_future(
        open_keeper(SyncJob(source, intent, TemplateValues(), site.data, site.cache)).sync()
    )
    staging = site.data / ".sync-staging"
    await eventually_async(lambda: staged(site) == 1, timeout=60, message="the large file is being staged")
    for _ in range(2):
        call.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not staging.exists()
    assert site.files() == {}


async def test_two_syncs_on_one_data_folder_exclude_each_other(site: Site) -> None:
    site.repository.commit({"services/p/a": "1"})
    site.server.users.clear()
    source = SourceIntent(RepoUrl(site.url), GitRef("main"))
    intent = FilesIntent((FileMapping("services/p", "projects/P"),))
    with DataFolder.opened(site.data) as folder, lock_folder(folder):
        with pytest.raises(Wait, match="another sync"):
            await open_keeper(SyncJob(source, intent, TemplateValues(), site.data, site.cache)).sync()
        assert (await asyncio.to_thread(site.run)).code == 3
    report = await open_keeper(SyncJob(source, intent, TemplateValues(), site.data, site.cache)).sync()
    assert report.done.added == ("projects/P/a",)


@pytest.mark.parametrize("damaged", ["all of the pack", "the content of one file"])
async def test_a_damaged_mirror_is_rebuilt_within_the_sync(site: Site, damaged: str) -> None:
    content = secrets.token_hex(100_000)
    site.repository.commit({"services/p/a": content})
    site.server.users.clear()
    source = SourceIntent(RepoUrl(site.url), GitRef("main"))
    intent = FilesIntent((FileMapping("services/p", "projects/P"),))
    await open_keeper(SyncJob(source, intent, TemplateValues(), site.data, site.cache)).sync()
    (site.data / "projects/P/a").unlink()
    (pack,) = site.cache.rglob("*.pack")
    pack.chmod(0o600)
    raw = bytearray(pack.read_bytes())
    start, end = (12, len(raw) - 20) if damaged == "all of the pack" else (len(raw) // 2, len(raw) // 2 + 100)
    raw[start:end] = bytes(end - start)
    pack.write_bytes(raw)
    report = await open_keeper(SyncJob(source, intent, TemplateValues(), site.data, site.cache)).sync()
    assert report.done.added == ("projects/P/a",)
    assert site.files() == {"a": content}


async def test_credentials_that_are_asked_for_and_missing_are_named(site: Site) -> None:
    source = SourceIntent(RepoUrl(site.url), GitRef("main"), GitAuthPolicy(GitAuthKind.TOKEN))
    with pytest.raises(Misconfigured, match="token"):
        open_keeper(
            SyncJob(source, FilesIntent((FileMapping("a", "b"),)), TemplateValues(), site.data, site.cache)
        )
