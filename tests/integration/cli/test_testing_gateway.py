"""`stoker testing gateway`, and the same as a module: a gateway on the command line."""

from __future__ import annotations

import os
import signal
import ssl
import sys
from collections.abc import Sequence
from http.client import HTTPSConnection
from pathlib import Path

import pytest
from click.testing import CliRunner

from stoker.cli.commands import cli
from stoker_testkit.gateway.http_client import ask, ask_with
from stoker_testkit.processes import Process
from stoker_testkit.wait_until import eventually

STOKER = ["-m", "stoker", "testing", "gateway"]
MODULE = ["-m", "stoker_testkit.gateway.simulated_gateway"]
INFO = "/data/api/v1/gateway-info"
PATIENCE = 30.0


def start(tmp_path: Path, words: Sequence[str], lines: int = 3) -> tuple[Process, list[str]]:
    log = tmp_path / "gateway.log"
    process = Process.start("gateway", [sys.executable, *words], log=log)

    def printed() -> list[str]:
        process.check()
        found = log.read_text().splitlines()
        return found if len(found) >= lines else []

    return process, eventually(printed, PATIENCE, "the gateway prints its address and key")


@pytest.mark.parametrize("program", [STOKER, MODULE], ids=["stoker", "module"])
def test_it_serves_a_folder_until_it_is_stopped(tmp_path: Path, program: list[str]) -> None:
    (tmp_path / "data/projects/filler").mkdir(parents=True)
    (tmp_path / "data/projects/filler/project.json").write_text("{}")
    (tmp_path / "key").write_text("demo:secret\n")
    flags = ["--data-dir", str(tmp_path / "data"), "--key-file", str(tmp_path / "key"), "--name", "line 1"]
    process, printed = start(tmp_path, [*program, *flags])
    with process:
        assert "secret" not in "".join(printed), "a key from a file is not shown"
        loaded = ask(printed[0], "GET", "/testing/loaded").object()
        assert loaded["projects"] == {"filler": {}}
        assert ask_with(printed[0], "demo:secret", "GET", INFO).object()["name"] == "line 1"
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(PATIENCE)
        assert process.returncode == 0, process.tail()


def test_alone_it_makes_up_a_key_and_a_folder_which_goes_with_it(tmp_path: Path) -> None:
    process, (url, key, data) = start(
        tmp_path, [*STOKER, "--commissions", "--status-only", "--no-scan-lock", "--paths", "both"]
    )
    folder = Path(data.removeprefix("data: "))
    with process:
        assert (folder / ".uuid").exists()
        secret = key.removeprefix("key: ")
        assert ask_with(url, secret, "GET", "/data/api/v1/status").status == 200
        assert ask_with(url, secret, "GET", INFO).status == 404
        assert ask_with(url, secret, "GET", "/data/api/v1/scan-lock/config").status == 404
        assert ask_with(url, f"{secret}x", "GET", "/data/api/v1/status").status == 401
    assert not folder.exists()


def test_it_serves_tls_and_starts_slowly(tmp_path: Path) -> None:
    process, (url, _, _, authority) = start(tmp_path, [*STOKER, "--tls", "--slow-start", "600"], lines=4)
    with process:
        trust = ssl.create_default_context(cafile=authority.removeprefix("authority: "))
        connection = HTTPSConnection(url.removeprefix("https://"), timeout=PATIENCE, context=trust)
        connection.request("GET", "/StatusPing")
        assert connection.getresponse().read() == b'{"state": "STARTING"}'
        connection.close()


def test_a_key_file_without_a_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret-only")
    done = CliRunner().invoke(cli, ["testing", "gateway", "--key-file", str(tmp_path / "key")])
    assert done.exit_code == 2
    assert "NAME:SECRET" in done.output
    assert "secret-only" not in done.output
