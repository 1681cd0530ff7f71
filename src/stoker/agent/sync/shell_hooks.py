"""Runs the user's `pre-sync.sh` and `post-sync.sh`, if they exist.

`pre-sync.sh` runs before the first live change; if it fails, nothing is changed. `post-sync.sh` runs when the
files are in place; if it fails, the sync is reported as not verified. Both get the facts of the change in
their environment and the list of changes on standard input, one line per action. They get no secret and no
setting of the agent. A script that another user could have written is refused by name.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from stoker.agent.sync.hooks import SyncChange
from stoker.domain.errors import Retry, Stalled
from stoker.domain.git_objects import HeldPath, PathNote, printable_name
from stoker.domain.reasons import Reason
from stoker.fs.apply_plan import ApplyResult

PRE, POST = "pre-sync.sh", "post-sync.sh"
TIMEOUT = 300.0
MAX_OUTPUT_LENGTH = 2000


class ShellHooks:
    """Runs the scripts of the first folder that has them."""

    def __init__(self, folders: Sequence[Path], data_dir: Path, *, timeout: float = TIMEOUT) -> None:
        self._folders = folders
        self._data_dir = data_dir
        self._timeout = timeout

    async def hold(self, change: SyncChange) -> tuple[HeldPath, ...]:
        return ()

    @asynccontextmanager
    async def around(self, change: SyncChange) -> AsyncIterator[None]:
        self._find(POST)  # refuse a bad post-sync script now, not after the files are in place
        why = await self._run(PRE, change, {})
        if why is not None:
            raise Retry(f"{PRE} {why}; nothing was changed", reason=Reason.HOOK_FAILED)
        yield

    async def after(self, change: SyncChange, applied: ApplyResult) -> tuple[PathNote, ...]:
        counts = {
            "STOKER_ADDED": str(len(applied.added)),
            "STOKER_MODIFIED": str(len(applied.modified)),
            "STOKER_DELETED": str(len(applied.deleted)),
            "STOKER_ERRORS": str(len(applied.errors)),
        }
        try:
            why = await self._run(POST, change, counts)
        except Stalled as error:  # the script was replaced since the check in `around`
            why = error.message
        return () if why is None else (PathNote(POST, why),)

    async def _run(self, name: str, change: SyncChange, more: dict[str, str]) -> str | None:
        """Run the script; return why it failed, or None if it succeeded or does not exist."""
        script = self._find(name)
        if script is None:
            return None
        from stoker.kube.client.deadlines import timeout_scope  # noqa: PLC0415 - few users have scripts

        try:
            process = await asyncio.create_subprocess_exec(
                str(script),
                cwd=self._data_dir,
                env=self._environment(change) | more,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:  # mostly a first line that is missing or names a shell that does not exist
            return f"cannot be run: {error.strerror}; does its first line name a program, as #!/bin/sh does?"
        actions = "".join(f"{action}\n" for action in change.plan.actions).encode()
        try:
            async with timeout_scope(asyncio.timeout(self._timeout)):
                said, _ = await process.communicate(actions)
        except TimeoutError:
            return f"did not end within {self._timeout:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if process.returncode == 0:
            return None
        words = (
            printable_name(said[-MAX_OUTPUT_LENGTH:].decode(errors="replace").strip()) or "it printed nothing"
        )
        return f"ended with {process.returncode}: {words}"

    def _find(self, name: str) -> Path | None:
        for folder in self._folders:
            script = folder / name
            try:
                # Follow links: a mounted ConfigMap consists of them. The folder belongs to an administrator.
                found = script.stat()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise Stalled(f"hook {script} {error.strerror}", reason=Reason.HOOK_FAILED) from error
            why = _hook_file_problem(found)
            if why is not None:
                raise Stalled(f"hook {script} {why}, so it is not run", reason=Reason.HOOK_FAILED)
            return script
        return None

    def _environment(self, change: SyncChange) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C.UTF-8",
            "STOKER_COMMIT": change.commit,
            "STOKER_REF": change.ref,
            "STOKER_DATA_DIR": str(self._data_dir.absolute()),  # absolute: the script has another cwd
            "STOKER_PLAN_DIGEST": change.plan.digest,
            "STOKER_INITIAL": "true" if change.initial else "false",
        }


def _hook_file_problem(found: os.stat_result) -> str | None:
    if not stat.S_ISREG(found.st_mode):
        return "is not a file"
    if found.st_uid not in (0, os.geteuid()):
        return f"belongs to user {found.st_uid}, which is neither root nor this process's user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "can be written by others"
    if not found.st_mode & stat.S_IXUSR:
        return "is not executable"
    return None
