"""The entry point: finds the verb, runs it, and turns an error into one sentence and an exit code.

A verb's module is imported when the verb is called, so that `stoker --version` does not load an HTTP stack
that only the controller needs. `--version` does not even load the command line parser.
"""

from __future__ import annotations

import errno
import gc
import sys

from stoker import __version__

_OUTPUT_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EPIPE, errno.EIO)


def main() -> None:
    """Run the command line; expected errors never show a traceback."""
    try:
        _run()
        if sys.stdout is not None:  # a shell may have closed it
            sys.stdout.flush()
    except OSError as error:
        # Mostly a full disk behind `>`. Verbs report it themselves; help and version do not.
        if error.filename is not None or error.errno not in _OUTPUT_ERRNOS:
            raise
        if error.errno != errno.EPIPE:  # EPIPE: the reader of the pipe has closed it, which is no error
            sys.stderr.write(f"stoker: standard output: {error.strerror}\n")
        sys.stdout = None  # otherwise Python flushes again at exit and prints a traceback
        sys.exit(1)


def _run() -> None:
    if sys.argv[1:] == ["--version"]:
        print(f"stoker {__version__}")  # noqa: T201 - unlike write, print accepts a closed standard output
        return
    gc.set_threshold(50_000)  # imports create no garbage, and collecting takes a fifth of the start time
    from stoker.cli.commands import cli  # noqa: PLC0415
    from stoker.cli.exit_codes import exit_code  # noqa: PLC0415 - --version does not need it
    from stoker.domain.errors import StokerError  # noqa: PLC0415

    try:
        cli()
    except StokerError as error:
        sys.stderr.write(f"stoker: {error.message}\n")
        sys.exit(exit_code(error))
    finally:
        gc.freeze()  # otherwise Python runs a full collection over all objects at exit
