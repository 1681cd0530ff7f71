"""Counts the files that one commit, or one object of a cluster, passes on its way through the product.

Runs a story of the test suite on real processes and lists the files of src/stoker in which a function ran
from the moment that the first step saw the change until the last step had written its result. Helpers, values
and everything else that runs meanwhile count too.

    PYTHONPATH=tools .venv/bin/python -m walk commit
    PYTHONPATH=tools .venv/bin/python -m walk object
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
PRODUCT = REPOSITORY / "src" / "stoker"
HOOK = Path(sysconfig.get_path("purelib")) / "stoker_walk.pth"
"""Python runs the `import` lines of such a file at every start, whatever the environment of the process."""

QUIET = 2
"""Tenths of a second without an arrival that separate two changes."""


@dataclass(frozen=True)
class Walk:
    """A story, the file that runs first when the change arrives and the file that runs last."""

    story: str
    first: str
    last: str


WALKS = {
    "commit": Walk(
        "tests/e2e/test_operator_stories.py::test_push_to_webhook_to_all_gateways_verified",
        "webhooks/receiver/decide.py",
        "controller/status/status.py",
    ),
    "object": Walk(
        "tests/integration/reverser/test_commit_and_prune.py::test_an_object_is_written_and_followed_to_its_end",
        "reverser/watch/ingest.py",
        "reverser/status/status_writer.py",
    ),
}


@contextmanager
def recording(folder: str) -> Iterator[None]:
    call = f"from walk.recorder import start; start({str(PRODUCT) + '/'!r}, {folder!r})"
    HOOK.write_text(f"{HERE.parent}\nimport sys; exec({call!r})\n")
    try:
        yield
    finally:
        HOOK.unlink()


def run(walk: Walk) -> list[tuple[int, str]]:
    """The tenths of a second and the files of all processes of the story but the test's own, in order."""
    with tempfile.TemporaryDirectory() as folder:
        with recording(folder):
            command = [sys.executable, "-m", "pytest", "-n", "0", walk.story]
            test = subprocess.Popen(command, cwd=REPOSITORY)
            if test.wait():
                raise SystemExit(f"{walk.story} failed; nothing is counted")
        parts = [part for part in Path(folder).iterdir() if part.name != str(test.pid)]
        lines = [line for part in parts for line in part.read_text().splitlines()]
    return sorted((int(moment), file) for moment, _, file in (line.partition(" ") for line in lines))


def files_between(events: list[tuple[int, str]], walk: Walk) -> list[str]:
    """The files from the last change's arrival to the last write, in the order in which they first ran."""
    arrivals = [moment for moment, file in events if file == walk.first]
    begin = max(here for before, here in pairwise([0, *arrivals]) if here - before > QUIET)
    end = max(moment for moment, file in events if file == walk.last)
    return list(dict.fromkeys(file for moment, file in events if begin <= moment <= end))


def main(name: str) -> None:
    walk = WALKS[name]
    files = files_between(run(walk), walk)
    print("\n".join(files))
    print(f"{len(files)} files")


if __name__ == "__main__":
    main(sys.argv[1])
