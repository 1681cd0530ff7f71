"""Runs a command in namespaces of its own, where a node may have the machine's network, mounts and processes.

    python -m stoker_testkit.node.unshare COMMAND …

A node makes interfaces, chains, mounts and processes that belong to no parent. In here all
of them go with the last process of the command, however it ends; what namespaces do not
hold, the state folder and the cgroups, is removed after it. Nothing in here reaches another
machine: there is no interface that leads anywhere.

Where the machine cannot do it, one line says why, and the same command runs as it is: it
finds no `STATE` in its environment and does without containers.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from stoker_testkit.assets import ensure_binaries as assets
from stoker_testkit.assets.cache import missing, node_folder
from stoker_testkit.node.preflight import CGROUPS, CONTAINER_CGROUPS, why_not

STATE = "STOKER_NODE_STATE"
"""Names the folder of the node's state, and so says that a node may be started."""
_INSIDE = "--inside"
_UNSHARE = (
    "unshare",
    "--net",
    "--mount",
    "--pid",
    "--ipc",
    "--uts",
    "--fork",
    "--kill-child",
    "--mount-proc",
)
CONTAINERS = "runtime/*/io.containerd.runtime.v2.task/*/*"
"""A glob below that folder: one folder for each container."""
_HIDDEN = ("/run", "/var/log")
"""The folders that programs of a node write to whatever their options are."""


def enclosed(argv: list[str]) -> int:
    """Run the command and clean up after it; its exit code."""
    # Short, because the names of sockets below it may have 107 bytes in all.
    state = Path(tempfile.mkdtemp(prefix="stoker-node-", dir="/tmp"))
    inside = [sys.executable, "-m", "stoker_testkit.node.unshare", _INSIDE, *argv]
    child = subprocess.Popen([*_UNSHARE, "--", *inside], env={**os.environ, STATE: str(state)})
    for number in (signal.SIGINT, signal.SIGTERM):
        # Ctrl-C reaches the command by the terminal; what comes to us alone is passed on.
        signal.signal(number, lambda number, _: child.send_signal(number))
    try:
        return child.wait()
    finally:
        _remove_cgroups({one.name for one in state.glob(CONTAINERS)})
        shutil.rmtree(state, ignore_errors=True)


def _inside(argv: list[str]) -> int:
    """The first process of the namespaces: hides places, starts the command, and buries the dead."""
    for place in _HIDDEN:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
    child = subprocess.Popen(argv)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: child.send_signal(number))
    while True:
        # What others leave behind is handed to the first process, which must not keep it.
        pid, status = os.wait()
        if pid == child.pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode


def _remove_cgroups(containers: set[str]) -> None:
    """Those of containers that were not stopped in order; their processes are gone."""
    for parent in (CGROUPS / CONTAINER_CGROUPS, *CGROUPS.glob(f"*/{CONTAINER_CGROUPS}")):
        for place in (*(parent / one for one in containers), parent):
            # The last one stays while there is another node.
            with contextlib.suppress(OSError):
                place.rmdir()


def main() -> int:
    argv = sys.argv[1:]
    if argv[0] == _INSIDE:
        return _inside(argv[1:])
    # In there is no network: what is not built by now cannot be built.
    lacking = missing(assets.NODE, node_folder())
    reason = why_not() or (f"{', '.join(lacking)} could not be built" if lacking else "")
    if reason:
        sys.stderr.write(f"no real node on this machine, so a kubelet without containers: {reason}\n")
        return subprocess.run(argv, check=False).returncode
    return enclosed(argv)


if __name__ == "__main__":
    sys.exit(main())
