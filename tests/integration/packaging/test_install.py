"""The README's lines that install Stoker from a checkout."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LINE = "uv tool install ."
WITH_DEMO = "uv tool install '.[demo]'"


@pytest.mark.services
def test_the_line_of_the_readme_installs_a_command_that_runs(tmp_path: Path) -> None:
    stoker = installed(LINE, tmp_path)
    assert run(stoker, "--version").stdout.startswith("stoker 0.")
    assert run(stoker, "sync", "--help").returncode == 0
    demo = run(stoker, "demo")
    assert (demo.returncode, demo.stdout) == (2, "")
    assert WITH_DEMO in demo.stderr


@pytest.mark.services
def test_the_line_with_the_extra_installs_the_test_gateway(tmp_path: Path) -> None:
    stoker = installed(WITH_DEMO, tmp_path)
    assert "--key-file" in run(stoker, "testing", "gateway", "--help").stdout
    assert "--stay" in run(stoker, "demo", "--help").stdout


def installed(line: str, folder: Path) -> Path:
    """The command that a line of the README installs."""
    assert line in (ROOT / "README.md").read_text()
    uv = Path(sys.executable).with_name("uv")
    folders = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    env = os.environ | folders | {"UV_PYTHON": sys.executable}
    words = shlex.split(line)[1:]
    subprocess.run([uv, *words], cwd=ROOT, env=env, check=True, capture_output=True, timeout=600)
    return folder / "bin" / "stoker"


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
