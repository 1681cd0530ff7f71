"""A pod's root as a container has it: read-only, but for the volumes, and entered as an unprivileged user.

The pod's folders are laid over this machine's own root, so that every place is where it is
in a cluster and the programs of the image are this machine's. It lives in a mount namespace
of its own and is gone with its processes. Only root can make it, on a kernel with overlayfs.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker_testkit.environments.agent_pod import AgentPod
from stoker_testkit.processes import Process

WRITABLE = ("repo", "tmp", "ignition-data")
_READ_ONLY = ("etc/stoker", "etc/podinfo")

# $1 is the pod's root, $2 the user, $3 folders that shall be there for everybody, $4 what of this
# machine a folder of the pod would hide; the rest is run in it.
_ENTER = """\
set -e
pod=$1 user=$2 folders=$3 hidden=$4; shift 4
mount --make-rprivate /
mount -t tmpfs none /mnt
mkdir /mnt/upper /mnt/root
for folder in $folders; do mkdir -p "/mnt/upper/$folder"; done
mount -t overlay -o ro,lowerdir=/mnt/upper:/ none /mnt/root
for place in $folders; do
    [ ! -d "$pod/$place" ] || mount --rbind "$pod/$place" "/mnt/root/$place"
done
for place in $hidden; do
    mkdir -p "/mnt/root$place"
    mount --rbind "$place" "/mnt/root$place"
done
mount --rbind /proc /mnt/root/proc
mount --rbind /dev /mnt/root/dev
exec chroot /mnt/root setpriv --reuid="$user" --regid="$user" --clear-groups --no-new-privs \\
    --bounding-set=-all --inh-caps=-all "$@"
"""


@dataclass(frozen=True)
class SealedRoot:
    """The start of one pod's agent in that root."""

    pod: AgentPod
    user: int = 2003

    def start(self, kubeconfig: Path, *flags: str) -> Process:
        """The agent, which finds everything where it is in a cluster."""
        self.pod.mount("kubeconfig", {"config": kubeconfig.read_text()})
        for name in WRITABLE:
            _give(self.pod.root / name, self.user)
        return self.pod.start(
            Path("/etc/stoker/kubeconfig/config"),
            "--root=/",
            *flags,
            env={"TMPDIR": "/tmp", "HOME": "/nonexistent"},  # noqa: S108 - the pod's own
            command=self._command(),
        )

    def _command(self) -> Sequence[str]:
        needed = (Path(sys.executable), Path(sys.base_prefix), *map(Path, sys.path))
        folders = " ".join((*_closed_above(*needed), *_READ_ONLY, *WRITABLE))
        inside = ("env", "-u", "COVERAGE_PROCESS_START", sys.executable, "-m", "stoker")
        return (
            *("unshare", "--mount", "sh", "-c", _ENTER, "sh"),
            *(str(self.pod.root), str(self.user), folders, " ".join(_hidden(*needed))),
            *inside,
        )


def _give(folder: Path, user: int) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)


def _hidden(*paths: Path) -> list[str]:
    """Folders of the program that are where the pod has a volume of its own: a checkout below /tmp."""
    below = {
        str(path if path.is_dir() else path.parent)
        for one in (Path(sys.prefix), *paths)
        for path in (one, one.resolve())
        if path.exists() and path.is_absolute() and path.parts[1:2] and path.parts[1] in WRITABLE
    }
    return sorted(below)


def _closed_above(*paths: Path) -> list[str]:
    """Folders on the way that are not open to everybody; of two layers the upper one says who may pass."""
    above = {one for path in paths for one in (*path.parents, *path.resolve().parents)}
    return sorted(str(one)[1:] for one in above if one.is_dir() and not one.stat().st_mode & stat.S_IXOTH)
