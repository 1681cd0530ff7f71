"""The stage `machine`: the one without a cluster, with an older release installed and a new wheel at hand."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from stoker_testkit.docs_checks.markdown_page import ROOT
from stoker_testkit.docs_runner.reader_environment import Standalone

STAGE = "machine"
SECONDS = 120.0
OLD = "0.0.1"
METADATA = f"Metadata-Version: 2.1\nName: stoker\nVersion: {OLD}\n"


class UpgradedMachine(Standalone):
    """The state that an earlier run of `docs/standalone.md` leaves behind."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.home = folder / "opt" / "stoker"
        self.names["/opt/stoker"] = str(self.home)
        # No index is asked: what the wheel needs is there already, as it would be after an install.
        self.environment["PIP_NO_INDEX"] = "1"
        _run(sys.executable, "-m", "venv", self.home)
        self._put_old_release()
        _run(
            Path(sys.executable).parent / "uv",
            "build",
            "--wheel",
            "--quiet",
            f"--out-dir={self.folder}",
            ROOT,
        )

    def _put_old_release(self) -> None:
        (packages,) = self.home.glob("lib/python*/site-packages")
        (packages / "needed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        dist_info = packages / f"stoker-{OLD}.dist-info"
        dist_info.mkdir()
        (dist_info / "METADATA").write_text(METADATA)
        (dist_info / "RECORD").write_text(f"{dist_info.name}/METADATA,,\n{dist_info.name}/RECORD,,\n")


def _run(*words: str | Path) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(words, env=environment, check=True, capture_output=True, timeout=SECONDS)
