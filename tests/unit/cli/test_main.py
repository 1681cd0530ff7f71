"""The command line finds its verbs, is quick to start, and ends with the right code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from stoker import __version__
from stoker.cli.commands import VERBS, cli
from stoker.cli.exit_codes import ExitCode, exit_code
from stoker.domain.errors import InvalidValue, Misconfigured, Retry, Stalled, StokerError, Wait
from stoker.domain.reasons import Reason


def test_the_version_is_shown() -> None:
    assert CliRunner().invoke(cli, ["--version"]).output == f"stoker {__version__}\n"


def test_help_names_every_verb() -> None:
    output = CliRunner().invoke(cli, ["--help"]).output
    assert all(name in output for name in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str) -> None:
    done = CliRunner().invoke(cli, [verb, "--help"])
    assert done.exit_code == 0
    assert "Usage:" in done.output


def test_an_unknown_verb_is_wrong_input() -> None:
    assert CliRunner().invoke(cli, ["shovel"]).exit_code == ExitCode.WRONG_INPUT


def test_the_version_costs_next_to_nothing() -> None:
    code = (
        "import sys; sys.argv[1:] = ['--version'];"
        "from stoker.cli.main import main; main(); print(*sys.modules)"
    )
    alone = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60, env=alone
    )
    version, loaded = done.stdout.splitlines()
    assert version == f"stoker {__version__}"
    assert not {"click", "asyncio", "structlog", "msgspec", "aiohttp", "typing"} & set(loaded.split())


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["completion", "bash"]])
def test_a_disk_that_is_full_is_a_sentence(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "stoker", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (1, "stoker: standard output: No space left on device\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["sync", "--help"],
        ["plan", "--help"],
        ["verify", "--help"],
        ["dev", "watch", "--help"],
        ["controller", "--help"],
        ["export", "--help"],
        ["testing", "gateway", "--help"],
    ],
)
def test_what_needs_no_server_loads_no_http_stack(arguments: list[str]) -> None:
    program = (
        "import sys; from stoker.cli.commands import cli; cli(sys.argv[1:], standalone_mode=False);"
        "print(sorted({'aiohttp', 'yaml', 'prometheus_client'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Misconfigured("x"), ExitCode.WRONG_INPUT),
        (InvalidValue("x"), ExitCode.WRONG_INPUT),
        (Stalled("x"), ExitCode.STALLED),
        (Stalled("x", reason=Reason.REF_NOT_FOUND), ExitCode.WRONG_INPUT),
        (Stalled("x", reason=Reason.SOURCE_AUTH_FAILED), ExitCode.UNREACHABLE),
        (Retry("x", reason=Reason.SOURCE_UNREACHABLE), ExitCode.UNREACHABLE),
        (Retry("x", reason=Reason.DATA_VOLUME_FAILED), ExitCode.STALLED),
        (Wait("x", after=1), ExitCode.STALLED),
        (StokerError("x"), ExitCode.PARTIAL),
    ],
)
def test_an_error_becomes_an_exit_code(error: StokerError, code: ExitCode) -> None:
    assert exit_code(error) == code
