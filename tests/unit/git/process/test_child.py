"""A child process is listened to, bounded, and never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from stoker.git.process.child import MAX_STDERR, Ended, converse
from stoker.testing.wait_until import eventually_async


async def sh(script: str, *, stdin: bytes = b"", max_output: int = 1 << 20, timeout: float = 20) -> Ended:
    return await converse(
        ["/bin/sh", "-c", script],
        environment={"PATH": os.defpath},
        cwd=Path("/"),
        stdin=stdin,
        max_output=max_output,
        timeout=timeout,
    )


async def test_it_says_how_it_ended_and_what_it_said() -> None:
    assert await sh("printf out; printf err >&2; exit 3") == Ended(3, b"out", b"err")


async def test_more_input_than_a_pipe_holds_is_read_while_as_much_is_printed() -> None:
    content = os.urandom(3_000_000)
    assert (await sh("cat", stdin=content, max_output=4_000_000)).output == content


async def test_without_input_there_is_nothing_to_read() -> None:
    assert (await sh("cat")).output == b""


async def test_of_a_long_complaint_the_end_is_kept() -> None:
    ended = await sh("yes no | head -c 1000000 >&2; printf why >&2")
    assert len(ended.complaint) == MAX_STDERR
    assert ended.complaint.endswith(b"why")


async def test_too_much_output_ends_it() -> None:
    ended = await sh("yes", max_output=1000)
    assert ended.output is None
    assert ended.code != 0


def alive(marker: str) -> bool:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if marker.encode() in (process / "cmdline").read_bytes():
                return True
    return False


@pytest.mark.parametrize("how", ["timeout", "cancel", "cancel twice"])
async def test_it_is_ended_with_everything_that_it_started(how: str, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    marker = f"sleep 98{os.getpid() % 1000:03}.5"
    call = asyncio.ensure_future(
        sh(f"({marker} & {marker}) & touch {ready}; {marker}", timeout=1 if how == "timeout" else 60)
    )
    await eventually_async(ready.exists, message="it runs")
    if how != "timeout":
        call.cancel()
    if how == "cancel twice":
        await asyncio.sleep(0)
        call.cancel()
    with pytest.raises(TimeoutError if how == "timeout" else asyncio.CancelledError):
        await call
    argument = marker.split()[1]
    await eventually_async(lambda: not alive(argument), message="all of it has ended")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_no_descriptor_is_left_open() -> None:
    before = descriptors()
    for _ in range(5):
        await sh("cat", stdin=b"x")
        with pytest.raises(TimeoutError):
            await sh("sleep 5", timeout=0.05)
    assert descriptors() <= before


async def test_a_program_that_is_not_there_is_an_error_at_once() -> None:
    with pytest.raises(FileNotFoundError):
        await converse(["/nowhere"], environment={}, cwd=Path("/"), stdin=b"x", max_output=1, timeout=1)
