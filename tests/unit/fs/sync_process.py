"""Processes that bring a data folder to one small tree after another, and can be made to fail.

Each line of standard input is a JSON list: the data folder, a file for what goes
wrong, the trees, the failures. For each a process is forked, and its exit status is
printed when it has ended. The plan is the simplest that can be: what differs is written, what is ours and not
wanted goes. Everything that touches the disk is the product's own.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from stoker.domain.git_objects import Blob, BlobId, FileVersion, blob_of
from stoker.domain.paths import RelPath
from stoker.engine.plan.ledger import Ledger, encode_record
from stoker.engine.plan.live import LiveDifferences, LiveKind
from stoker.engine.plan.plan import (
    RESOURCE_MANIFEST,
    DeleteFile,
    LedgerFacts,
    SetFileMode,
    SyncPlan,
    WriteFile,
    deletion_order,
)
from stoker.fs.apply_plan import apply_plan
from stoker.fs.data_folder import DataFolder
from stoker.fs.find_changes import scan_folder
from stoker.fs.ledger_store import LedgerStore, lock_folder
from stoker_testkit.faults.failpoints import FailpointAction, arm

MANAGED = "d"
Contents = dict[str, tuple[bytes, bool]]

TREES: dict[str, Contents] = {
    "one": {
        "d/v/resource.json": (b"one", False),
        "d/v/view.json": (b"one" * 1000, False),
        "d/swap": (b"one", False),
        "d/back/file": (b"one", False),
        "d/run.sh": (b"one", False),
        "d/old/deep/resource.json": (b"one", False),
        "d/old/deep/code.py": (b"one", False),
        "d/same": (b"same", False),
    },
    "two": {
        "d/v/resource.json": (b"two", False),
        "d/v/view.json": (b"two" * 1000, False),
        "d/swap/now/a/folder": (b"two", False),
        "d/back": (b"two", False),
        "d/run.sh": (b"one", True),
        "d/new/x/resource.json": (b"two", False),
        "d/new/x/view.json": (b"two", False),
        "d/same": (b"same", False),
    },
}


def tree(name: str) -> Contents:
    """One of the trees, or, for a number, a resource of that version with much data."""
    if not name.isdigit():
        return TREES[name]
    number = name.encode()
    return {
        "d/v/view.json": (number.rjust(8, b"0") * 4096, False),
        "d/v/resource.json": (number, False),
        f"d/turn{name}/resource.json": (number, False),
        f"d/turn{name}/view.json": (number.rjust(8, b"0") * 4096, False),
    }


def plan_for(desired: Contents, live: LiveDifferences, ledger: Ledger) -> SyncPlan:
    wanted = {path: FileVersion(blob_of(content), exe) for path, (content, exe) in desired.items()}
    ours = {path for path, version in ledger.intended.items() if _holds(live, ledger, path, version)}
    ours |= {path for path in ledger.files if _is_file(live, ledger, path)}
    inside = {folder for path in wanted for folder in map(str, RelPath(path).ancestors())}
    clear = {
        path
        for path in ours - wanted.keys()
        if path in inside or any(path.startswith(f"{other}/") for other in wanted)
    }
    writes, modes, remembered = [], [], {}
    for path, version in wanted.items():
        there = live.at(path, ledger)
        found = there.version if there is not None else None
        if found is None or found.blob != version.blob:
            replaces = there is not None and there.kind is LiveKind.FILE
            writes.append(WriteFile(RelPath(path), version, replaces))
        elif found.executable != version.executable:
            modes.append(SetFileMode(RelPath(path), version))
        elif there is not None and path in live.found:
            remembered[path] = encode_record(version, there.stat)
    return SyncPlan(
        clearings=tuple(DeleteFile(RelPath(path)) for path in sorted(clear)),
        writes=tuple(sorted(writes, key=lambda w: (w.path.name == RESOURCE_MANIFEST, w.path))),
        modes=tuple(modes),
        deletions=tuple(
            sorted((DeleteFile(RelPath(path)) for path in ours - wanted.keys() - clear), key=deletion_order)
        ),
        remembered=remembered,
        forgotten=frozenset(path for path in ledger.files if path not in ours),
        facts=LedgerFacts(folders=frozenset({MANAGED})),
        prunable=frozenset({MANAGED}),
    )


def _is_file(live: LiveDifferences, ledger: Ledger, path: str) -> bool:
    there = live.at(path, ledger)
    return there is not None and there.kind is LiveKind.FILE


def _holds(live: LiveDifferences, ledger: Ledger, path: str, version: FileVersion) -> bool:
    there = live.at(path, ledger)
    return there is not None and there.version is not None and there.version.blob == version.blob


def sync(folder: DataFolder, desired: Contents) -> None:
    contents = {blob_of(content): content for content, _ in desired.values()}

    def read(ids: Sequence[BlobId]) -> Iterator[Blob]:
        return (Blob(blob, len(contents[blob]), iter([contents[blob]])) for blob in ids)

    with lock_folder(folder):
        book = LedgerStore.load(folder)
        ledger = book.ledger or Ledger()
        live = scan_folder(
            folder, ledger, managed_folders=[MANAGED], compared=desired.keys() | ledger.intended.keys()
        )
        applied = apply_plan(folder, plan_for(desired, live, ledger), book, read)
    if applied.errors:
        raise RuntimeError(f"done in part: {applied.errors}")


def main(data: str, trees: list[str], failures: list[str]) -> None:
    arm(*map(FailpointAction.parsed, failures))
    with DataFolder.opened(Path(data)) as folder:
        for name in trees:
            sync(folder, tree(name))


def child(data: str, errors: str, trees: list[str], failures: list[str]) -> int:
    try:
        main(data, trees, failures)
    except Exception:
        Path(errors).write_text(traceback.format_exc(), encoding="utf-8")
        return 1
    return 0


if __name__ == "__main__":
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os._exit(child(*json.loads(line)))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)  # noqa: T201 - the answer
