"""Checks whether this machine can run a node, by trying it: virtual machines differ in what they forbid.

python -m stoker_testkit.node.preflight    builds what a node runs; fails where there can be none
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from stoker.domain.errors import StokerError
from stoker_testkit.assets import ensure_binaries as assets

CGROUPS = Path("/sys/fs/cgroup")
CONTAINER_CGROUPS = "k8s.io"
"""The folder in every hierarchy where containerd makes those of a kubelet's containers."""
PROGRAMS = {"runc": "runc", "iptables": "iptables", "ip": "iproute2", "busybox": "busybox-static"}
"""Programs that a node needs besides the built binaries, and the Debian package of each."""

_TRIAL = """
set -e
iptables -w -t nat -A POSTROUTING -m comment --comment trial -j MASQUERADE
ip link add trial type bridge
ip link add trial0 type veth peer name trial1
mkdir lower upper work merged
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged
"""
_TRIAL_SECONDS = 30.0


def why_not() -> str:
    """Nothing, or what keeps a node from running here."""
    if sys.platform != "linux":
        return "containers need Linux"
    if os.geteuid() != 0:
        return "it takes root"
    lacking = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if lacking:
        return f"Debian packages are missing: {' '.join(lacking)}"
    return _cgroups() or _trial()


def _cgroups() -> str:
    unified = CGROUPS / "cgroup.controllers"
    one = CGROUPS if unified.exists() else CGROUPS / "memory"
    trial = one / f"stoker-trial-{os.getpid()}"
    try:
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        return f"no cgroup can be made: {error.strerror}"
    return ""


def _trial() -> str:
    """A bridge, a chain and an overlay, made in namespaces that are thrown away."""
    with tempfile.TemporaryDirectory(prefix="stoker-trial-") as folder:
        done = subprocess.run(
            ["unshare", "--net", "--mount", "--pid", "--fork", "sh", "-c", _TRIAL],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TRIAL_SECONDS,
        )
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def main() -> int:
    if why_not():
        return 1  # the caller prints the reason
    try:
        assets.node()
    except StokerError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
