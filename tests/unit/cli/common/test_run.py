"""Running a verb's coroutine to its end."""

import asyncio
import os
import signal

import pytest

from stoker.cli.common.run import run


class Large:
    """A result that takes long to spell out."""

    spelled_out = 0

    def __repr__(self) -> str:
        Large.spelled_out += 1
        return "Large()"


def test_what_a_verb_returns_is_never_spelled_out() -> None:
    result = Large()

    async def work() -> Large:
        return result

    assert run(work()) is result
    assert Large.spelled_out == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_command_cleans_up_and_ends_as_the_shell_expects(number: signal.Signals) -> None:
    tidied = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

    async def work() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            tidied.append(number)

    try:
        with pytest.raises(SystemExit) as ended:
            run(work())
    finally:
        signal.signal(signal.SIGINT, before)
    assert (ended.value.code, tidied) == (128 + number, [number])
