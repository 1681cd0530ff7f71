"""A planted credential is found wherever a test run leaves it, and is not reported where it is allowed.

The search is the one that ends every run (`stoker_testkit.secret_leaks.pytest_plugin`); the last tests are
whole runs of pytest, with workers and without, of which some leave a credential behind.
"""

from __future__ import annotations

import base64
import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from stoker_testkit.certificates import Authority, private_pem
from stoker_testkit.processes import Process
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.ssh_keys import make_ssh_key
from stoker_testkit.secret_leaks.captured_output import keep, keep_metrics
from stoker_testkit.secret_leaks.leak_scan import LeakScan, LeakScanFailed
from stoker_testkit.secret_leaks.tracked_credentials import RUN, known, mark, planted
from stoker_testkit.services.syslog_server import SyslogServer
from stoker_testkit.wait_until import eventually


class Run:
    """A run of tests that is over but for the last look; `left` is what its tests have left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "stoker-run-1"
        self.left = folder / "pytest-1"
        for made in (self.folder, self.left / "test_a0"):
            made.mkdir(parents=True)

    def file(self, path: str, content: str | bytes) -> Path:
        place = self.left / "test_a0" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        return place

    def repository(self, name: str = "plant.git") -> Repository:
        return Repository.create(self.left / "test_a0/repositories" / name)

    def found(self) -> list[str]:
        return LeakScan(self.folder).found([self.left])


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    run = Run(tmp_path)
    monkeypatch.setenv(RUN, str(run.folder))
    return run


def basic(token: str) -> str:
    return base64.b64encode(f"x-access-token:{token}".encode()).decode()


def packed(repository: Repository) -> None:
    repository.git("repack", "-adq")


LEAKS: dict[str, tuple[Callable[[Run, str], object], str]] = {
    "a log": (lambda run, it: run.file("controller.log", f'{{"error": "{it}"}}'), "controller.log"),
    "a header": (lambda run, it: run.file("agent.log", f"Basic {basic(it)}"), "agent.log"),
    "an address": (lambda run, it: run.file("out", quote(f"https://me:{it}@x/", safe="")), "out"),
    "hexadecimal": (lambda run, it: run.file("cache/x", it.encode().hex()), "cache/x"),
    "a temporary file": (lambda run, it: run.file("tmp/askpass", it), "tmp/askpass"),
    "an archive": (lambda run, it: run.file("a.gz", gzip.compress(it.encode())), "a.gz, unpacked"),
    "a message": (lambda run, it: run.repository().commit({"a": "1"}, message=f"by {it}"), "an object of"),
    "a branch": (lambda run, it: run.file(f"x/{it}", ""), "the name of a file"),
    "the settings of git": (
        lambda run, it: run.file("mirror/config", f"[remote]\nurl = https://{it}@x\n"),
        "mirror/config",
    ),
    "metrics": (
        lambda _, it: keep("metrics", "the metrics of it", f'x{{url="{it}"}} 1'),
        "the metrics of it",
    ),
    "an object": (lambda _, it: keep("objects", "events of it", "{}", f'{{"m": "{it}"}}'), "events of it"),
    "a command line": (lambda _, it: keep("lines", "the line of it", it), "the line of it"),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_reported_by_name_and_place(run: Run, leak: str) -> None:
    token = planted("git-token")
    run.file("etc/stoker/token", token)
    run.file("innocent.log", f"{mark()[:-1]}- and {known('another', 'a' * 20)[:-1]}")
    keep("said", "the output of stoker", "nothing")
    assert run.found() == []
    show, place = LEAKS[leak]
    show(run, token)
    found = run.found()
    assert len(found) in (1, 2), found  # the mark alone is looked for as well
    assert all(place in one for one in found)
    assert any(one.startswith(("git-token in ", "a credential in ")) for one in found)
    assert token not in str(found)


def test_a_packed_object_is_read_and_a_broken_repository_hides_none(run: Run) -> None:
    token = planted("git-token")
    broken, whole = run.repository("broken.git"), run.repository()
    broken.commit({"b": "1"})
    whole.commit({"a": token * 10}, message="of no worth")
    packed(whole)
    for loose in (broken.path / "objects").glob("??/*"):
        loose.chmod(0o600)
        loose.write_bytes(b"torn")
    assert run.found() == [f"a credential in an object of {whole.path / 'objects'}"]


def test_keys_are_found_by_any_line_of_their_second_half(run: Run, tmp_path: Path) -> None:
    ssh = make_ssh_key(tmp_path / "ssh")
    pem = known("app-key", private_pem().decode())
    lines = [pem.splitlines()[-3], ssh.private.read_text().splitlines()[3]]
    run.file("public.log", ssh.public_line)
    assert run.found() == []
    for number, line in enumerate(lines):
        run.file(f"{number}.log", line)
    assert [one.split(" in ")[0] for one in run.found()] == ["app-key", "ssh-key"]


def test_the_key_of_a_log_server_is_looked_for(run: Run) -> None:
    pair = Authority().server().save(run.left / "test_a0", "siem")
    with SyslogServer.start("tls", tls=pair):
        assert run.found() == [], "it was handed out there, and its certificate is for everybody"
    shown = run.file("agent.log", pair.key.read_bytes())
    assert run.found() == [f"syslog-key in {shown}"]


def test_a_credential_that_was_handed_to_a_command_is_reported_only_where_it_does_not_belong(
    run: Run,
) -> None:
    token = planted("git-token")
    for place in ("token", "secrets/git/token", "pod/etc/stoker/git/token", "state/kubeconfig-admin"):
        run.file(place, f"{token}\n")
    key = make_ssh_key(run.left / "test_a0/id").private.read_text()
    assert run.found() == []
    run.file("cache/id", key)
    run.file("notes", f"the token is {token}\n")
    assert [one.rpartition("/")[2] for one in run.found() if "a credential" not in one] == ["notes", "id"]


def test_the_metrics_of_a_program_that_is_stopped_are_kept(run: Run, tmp_path: Path) -> None:
    page = (
        "import http.server, json, sys\n"
        "class Page(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200)\n"
        "        self.end_headers()\n"
        f"        self.wfile.write(b'repo_info{{url=\"{planted('git-token')}\"}} 1')\n"
        "    def log_message(self, *said): pass\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), Page)\n"
        "said = {'event': 'probe.listening', 'port': server.server_port, 'paths': ['/metrics']}\n"
        "print(json.dumps(said), flush=True)\n"
        "server.serve_forever()\n"
    )
    script = tmp_path / "page.py"
    script.write_text(page)
    with Process.start("it", [sys.executable, script], log=tmp_path / "log") as process:
        eventually(lambda: "probe.listening" in process.tail(), 10.0, process.tail)
    assert {one.split(", ")[0] for one in run.found()} == {
        f"{name} in the metrics of it" for name in ("git-token",)
    }
    keep_metrics("it", tmp_path / "log")  # it has gone: nothing happens


def test_a_scan_that_cannot_search_is_a_failure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (bin_ := run.left / "bin").mkdir()
    for name in ("xargs", "git"):
        (bin_ / name).symlink_to(str(shutil.which(name)))
    (bin_ / "grep").symlink_to(str(shutil.which("true")))
    monkeypatch.setenv("PATH", str(bin_))
    with pytest.raises(LeakScanFailed):
        run.found()


STORY = """
import subprocess, sys
from stoker_testkit.secret_leaks.tracked_credentials import planted

TOKEN, SHOWN, CALLED, SAID = (planted(name) for name in ("git-token", "shown", "called", "said"))

def test_quietly(tmp_path):
    (tmp_path / "token").write_text(TOKEN)

def test_log(tmp_path):
    (tmp_path / "x.log").write_text(f"login {TOKEN}")

def test_other_ways():
    print(SHOWN)
    subprocess.run([sys.executable, "-c", "import time; time.sleep(0.5)", CALLED], check=True)
    subprocess.run([sys.executable, "-m", "stoker", SAID], capture_output=True)
"""
WAYS = {
    "quietly": (0, []),
    "log": (2, ["git-token in"]),
    "other_ways": (0, ["called in the command line of", "said in the output of", "shown in the output of"]),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_whole_run_fails_for_what_it_leaves(tmp_path: Path, way: str) -> None:
    workers, result = WAYS[way]
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p stoker_testkit.secret_leaks.pytest_plugin\n")
    (tmp_path / "test_story.py").write_text(STORY)
    (tmp_path / "tmp").mkdir()
    mine = ("PYTEST", "COV", RUN)
    alone = {name: text for name, text in os.environ.items() if not name.startswith(mine)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", f"-n{workers}", f"-k{way}", "-pno:hypothesispytest", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**alone, "TMPDIR": str(tmp_path / "tmp")},
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    seen = [line for line in done.stdout.splitlines() if line.startswith("SEEN ")]
    assert [one for one in result if not any(one in line for line in seen)] == [], done.stdout
    assert done.returncode == (1 if result else 0), done.stdout
    assert bool(seen) is bool(result), seen
