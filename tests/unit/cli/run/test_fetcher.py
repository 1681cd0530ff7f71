"""The folder prefix of a fetcher's pod also applies to its service account."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_a_fetcher_below_a_root_reads_its_account_there(tmp_path: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if name not in ("KUBECONFIG", "HOME")} | {
        "HOME": str(tmp_path),
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "stoker", "fetcher", f"--root={tmp_path}"],
        env=variables | {"POD_NAME": "x", "POD_NAMESPACE": "x", "CR_NAME": "x", "CR_KIND": "IgnitionSync"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert str(tmp_path / "var/run/secrets/kubernetes.io/serviceaccount") in done.stderr
