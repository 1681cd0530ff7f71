"""Runs a verb's coroutine to its end; SIGTERM and SIGINT cancel it, so that it can clean up first."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import TypeVar

import click

from stoker.cli.common.output import show_error
from stoker.cli.exit_codes import exit_code
from stoker.domain.errors import Misconfigured, StokerError

T = TypeVar("T")


def run(work: Coroutine[object, object, T]) -> T:
    """Return the coroutine's result. SIGTERM and SIGINT cancel it and exit with 128 plus the signal."""

    # The task itself returns None: before asyncio restores SIGINT it formats the task with its whole result.
    returned: list[T] = []

    async def until_told_to_stop() -> None:
        task = asyncio.current_task()
        if task is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        returned.append(await work)

    try:
        asyncio.run(until_told_to_stop())
    except asyncio.CancelledError:
        raise SystemExit(128 + signal.SIGTERM) from None
    except KeyboardInterrupt:  # click would exit with 1, which here means a partial result
        raise SystemExit(128 + signal.SIGINT) from None
    return returned[0]


def exit_with_result(context: click.Context, verb: str, output: str, work: Callable[[], int]) -> None:
    """Exit with the code that `work` returns, or print its error and exit with the error's code."""
    try:
        _require_posix(verb)
        code = work()
    except StokerError as error:
        show_error(verb, error, output)
        code = exit_code(error)
    except OSError as error:
        # An OSError that no module translated: still one sentence, and still not a success.
        show_error(
            verb, Misconfigured(f"{error.filename or 'the system'}: {error.strerror or error}"), output
        )
        code = exit_code(Misconfigured(""))
    context.exit(code)


def _require_posix(verb: str) -> None:
    if sys.platform == "win32":
        raise Misconfigured(f"stoker {verb} needs Linux or macOS; on Windows run it in WSL")
