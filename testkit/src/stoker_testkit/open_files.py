"""Open file descriptors of this process, counted by what they refer to.

Other threads of a test run open and close descriptors of their own, so a total count would vary from moment
to moment.
"""

from __future__ import annotations

from pathlib import Path


def open_below(folder: Path) -> int:
    """The number of descriptors that refer to the folder or to something below it."""
    prefix = str(folder.resolve())
    return sum(target == prefix or target.startswith(f"{prefix}/") for target in _targets())


def open_pipes() -> int:
    return sum(target.startswith("pipe:") for target in _targets())


def _targets() -> list[str]:
    targets = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            targets.append(str(descriptor.readlink()))
        except FileNotFoundError:  # closed meanwhile
            continue
    return targets
