"""The README's line that installs Stoker from a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LINE = "uv tool install ."


@pytest.mark.services
def test_the_line_of_the_readme_installs_a_command_that_runs(tmp_path: Path) -> None:
    assert LINE in (ROOT / "README.md").read_text()
    uv = Path(sys.executable).with_name("uv")
    folders = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    env = os.environ | folders | {"UV_PYTHON": sys.executable}
    subprocess.run([uv, *LINE.split()[1:]], cwd=ROOT, env=env, check=True, capture_output=True, timeout=600)
    done = subprocess.run(
        [tmp_path / "bin" / "stoker", "--version"], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.startswith("stoker 0.")
