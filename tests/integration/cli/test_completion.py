"""Completion as a real bash asks for it, and the command as kubectl's plug-in."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.cli.completion import SHELLS
from stoker_testkit.cluster.cluster_access import ClusterAccess

PROGRAMS = Path(sys.executable).parent


def completed(line: str) -> list[str]:
    """What bash offers after this line, by the function that the script registers."""
    words = line.split(" ")
    script = (
        "source <(stoker completion bash)\n"
        f"COMP_WORDS=({shlex.join(words)}) COMP_CWORD={len(words) - 1}\n"
        "_stoker_completion stoker && printf '%s\\n' \"${COMPREPLY[@]}\"\n"
    )
    path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True, env={"PATH": path}, timeout=60
    )
    return done.stdout.split()


def test_bash_completes_verbs_and_options() -> None:
    assert completed("stoker ro") == ["rollback"]
    assert "--watch" in completed("stoker status --")
    assert completed("stoker status --output ") == ["text", "json"]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_a_script(shell: str) -> None:
    command = [sys.executable, "-m", "stoker", "completion", shell]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert f"_STOKER_COMPLETE={shell}_complete" in done.stdout


def test_kubectl_finds_the_command_as_its_plug_in(kinds: ClusterAccess, namespace: str) -> None:
    done = subprocess.run(
        [kinds.binaries / "kubectl", "stoker", "status", f"--namespace={namespace}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PATH": f"{PROGRAMS}:/usr/bin:/bin", "KUBECONFIG": str(kinds.kubeconfig("admin"))},
    )
    assert done.stdout == "no resources found\n"
