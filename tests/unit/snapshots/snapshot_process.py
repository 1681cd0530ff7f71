"""Takes snapshots of a data folder and keeps two of them, in a process that can be made to fail.

Arguments: the folder of a `SnapshotSite`, and failures as `stoker_testkit.faults.failpoints` reads them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from stoker_testkit.environments.snapshot_environment import SnapshotSite
from stoker_testkit.faults.failpoints import FailpointAction, arm


def main() -> None:
    site = SnapshotSite(Path(sys.argv[1]))
    arm(*map(FailpointAction.parsed, sys.argv[2:]))
    site.take()
    site.snapshots.prune(2)


if __name__ == "__main__":
    main()
