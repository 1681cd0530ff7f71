"""The container runtime of a node: containerd with a root, a state and a socket of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from stoker_testkit.cluster.cluster_access import CommandFailed
from stoker_testkit.node import cni_network, image_archives
from stoker_testkit.processes import Process
from stoker_testkit.stoppable import Stoppable

READY_SECONDS = 60.0
COMMAND_SECONDS = 300.0
NAMESPACE = "k8s.io"
"""The namespace of a kubelet's containers in containerd."""

# A guest may lack the capability to be harder on the kernel than its parent is: without
# `restrict_oom_score_adj` no pod would start there.
_CONFIG = """\
version = 3
root = '{root}'
state = '{state}'

[grpc]
address = '{socket}'

[plugins.'io.containerd.cri.v1.images']
snapshotter = 'overlayfs'

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '{pause}'

[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['{binaries}']
conf_dir = '{plugins}'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
"""


class Containerd(Stoppable):
    """One running containerd."""

    def __init__(self, process: Process, binaries: Path, socket: Path) -> None:
        self._process = process
        self._binaries = binaries
        self.socket = socket

    @classmethod
    def start(cls, folder: Path, binaries: Path) -> Containerd:
        """Start it in an empty folder, and return when it answers."""
        folder.mkdir(parents=True)
        cni_network.write_plugins(folder / "plugins", folder / "addresses")
        socket = folder / "containerd.sock"
        config = folder / "config.toml"
        config.write_text(
            _CONFIG.format(
                root=folder / "root",
                state=folder / "state",
                socket=socket,
                pause=image_archives.PAUSE,
                binaries=binaries,
                plugins=folder / "plugins",
            )
        )
        process = Process.start(
            "containerd",
            [binaries / "containerd", "--config", config],
            log=folder / "containerd.log",
            env={**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}"},  # it looks for its shim there
        )
        runtime = cls(process, binaries, socket)
        process.wait_ready(lambda: runtime._ctr("version").returncode == 0, READY_SECONDS)
        return runtime

    def load(self, archive: Path) -> None:
        """Import an image for kubelets, also under the long form of a short name, which they ask for."""
        self._must("images", "import", str(archive))
        for name in self._must("images", "list", "--quiet").split():
            if "/" not in name:
                self._must("images", "tag", "--force", name, f"docker.io/library/{name}")

    def kill(self, container: str) -> None:
        """End the first process of a container as a crash would."""
        self._must("tasks", "kill", "--signal", "SIGKILL", container)

    def stop(self) -> None:
        self._process.stop()

    def _must(self, *args: str) -> str:
        done = self._ctr("--namespace", NAMESPACE, *args)
        if done.returncode:
            raise CommandFailed(f"ctr {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout

    def _ctr(self, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._binaries / "ctr", "--address", str(self.socket), *args],
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS,
        )
