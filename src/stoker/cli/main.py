"""The entry point: finds the verb, and turns an error into one sentence and an exit code.

A verb's module is imported when the verb is called, so that `stoker --version`
does not pay for an HTTP stack that only the controller needs; it does not even
pay for the parser of the command line.
"""

from __future__ import annotations

import errno
import gc
import sys

from stoker import __version__

_OUTPUT_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EPIPE, errno.EIO)


def main() -> None:
    """Run the command line; never shows a traceback for an error that was foreseen."""
    try:
        _run()
        if sys.stdout is not None:  # a shell may have closed it
            sys.stdout.flush()
    except OSError as error:
        # A full disk behind `>`, most of all: verbs say it themselves, help and version have nobody else.
        if error.filename is not None or error.errno not in _OUTPUT_ERRNOS:
            raise
        if error.errno != errno.EPIPE:  # then whoever read has read enough
            sys.stderr.write(f"stoker: standard output: {error.strerror}\n")
        sys.stdout = None  # or Python would try once more on its way out, and say it by a traceback
        sys.exit(1)


def _run() -> None:
    if sys.argv[1:] == ["--version"]:
        print(f"stoker {__version__}")  # noqa: T201 - unlike write, it bears that there is no output
        return
    gc.set_threshold(50_000)  # loading modules makes no garbage, and looking for it takes a fifth of the time
    from stoker.cli.commands import cli  # noqa: PLC0415
    from stoker.cli.exit_codes import exit_code  # noqa: PLC0415 - the version is told without it
    from stoker.domain.errors import StokerError  # noqa: PLC0415

    try:
        cli()
    except StokerError as error:
        sys.stderr.write(f"stoker: {error.message}\n")
        sys.exit(exit_code(error))
    finally:
        gc.freeze()  # or Python would look through everything once more before it ends
