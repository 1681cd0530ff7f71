"""Runs the programs that make and verify signatures: `ssh-keygen` and `gpg`.

The rules are those of `stoker.git.process.runner`: a fixed argument list without a shell, an environment
built from scratch, limits on time and output. Only the exit code and the machine-readable output are used,
never messages for people. The files of a call are in a private folder that is removed with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from stoker.domain.errors import Misconfigured
from stoker.git.errors import GitFailed
from stoker.git.private_files import folder_for_one_call, remove_leftovers
from stoker.git.process.child import run_child
from stoker.git.process.passwd import ssh_user_environment
from stoker.git.process.runner import GitRunner

TIMEOUT = 30.0
MAX_OUTPUT = 256 * 1024

_PACKAGES = {"ssh-keygen": "openssh-client", "gpg": "gnupg"}


class ProgramResult(NamedTuple):
    code: int
    output: bytes


@contextmanager
def temporary_folder(runner: GitRunner) -> Iterator[Path]:
    """Yield a private folder; never in or beside the mirror, which may be a read-only shared volume."""
    place = runner.home
    remove_leftovers(place)
    try:
        with folder_for_one_call(place) as folder:
            yield folder
    except OSError as error:
        raise GitFailed(f"folder {place} cannot be written: {error.strerror}") from error


async def run_program(argv: Sequence[str], *, home: Path, stdin: bytes = b"") -> ProgramResult:
    """Run a program; return its exit code and its standard output."""
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "LC_ALL": "C",
        "TZ": "UTC0",  # times without a zone are read as UTC
    }
    program = argv[0]
    if program == "ssh-keygen":
        environment |= ssh_user_environment(home)
    try:
        ended = await run_child(
            argv, environment=environment, cwd=home, stdin=stdin, max_output=MAX_OUTPUT, timeout=TIMEOUT
        )
    except FileNotFoundError as error:
        raise Misconfigured(
            f"signatures need {program}, which is not on PATH; install the package {_PACKAGES[program]}"
        ) from error
    except TimeoutError:
        raise GitFailed(f"{program} took longer than {TIMEOUT:g} s for a signature") from None
    if ended.output is None:
        raise GitFailed(f"{program} printed more than {MAX_OUTPUT} bytes about a signature")
    if ended.code < 0:
        raise GitFailed(f"{program} was ended by signal {-ended.code} while it was asked about a signature")
    return ProgramResult(ended.code, ended.output)
