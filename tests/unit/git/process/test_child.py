"""A child process is listened to, bounded, and never left behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from stoker.git.process.child import MAX_STDERR, ChildResult, run_child
from stoker_testkit.open_files import open_pipes
from stoker_testkit.secret_leaks.process_command_lines import running
from stoker_testkit.wait_until import eventually_async


async def sh(
    script: str,
    *,
    stdin: bytes = b"",
    max_output: int = 1 << 20,
    timeout: float = 20,
    hidden: Sequence[str] = (),
) -> ChildResult:
    return await run_child(
        ["/bin/sh", "-c", script],
        environment={"PATH": os.defpath},
        cwd=Path("/"),
        stdin=stdin,
        max_output=max_output,
        timeout=timeout,
        hidden=hidden,
    )


async def test_it_reports_its_exit_and_its_output() -> None:
    assert await sh("printf out; printf err >&2; exit 3") == ChildResult(3, b"out", b"err")


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
    return any(marker in line for line in running().values())


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


async def test_no_descriptor_is_left_open() -> None:
    before = open_pipes()
    for _ in range(5):
        await sh("cat", stdin=b"x")
        with pytest.raises(TimeoutError):
            await sh("sleep 5", timeout=0.05)
    assert open_pipes() <= before


async def test_a_program_that_is_not_there_is_an_error_at_once() -> None:
    with pytest.raises(FileNotFoundError):
        await run_child(["/nowhere"], environment={}, cwd=Path("/"), stdin=b"x", max_output=1, timeout=1)


@pytest.mark.parametrize("over", [0, 1, 7, 15, 16, 17, 40])
async def test_a_secret_that_the_cut_goes_through_is_hidden(over: int) -> None:
    """Only the end of a long message is kept; the secret is where it begins."""
    secret = "s3cret-0123456789"
    after = MAX_STDERR - len(secret) + over
    script = f"printf '{secret}' >&2; head -c {after} /dev/zero | tr '\\0' x >&2; exit 1"
    ended = await sh(script, hidden=(secret, "x9"))
    assert len(ended.complaint) <= MAX_STDERR + len("<secret>")
    for length in range(4, len(secret) + 1):
        assert secret[-length:].encode() not in ended.complaint
    assert ended.complaint.endswith(b"x" * (after - len(secret) - over))


async def test_many_hidden_secrets_bring_nothing_back_that_was_cut() -> None:
    secret = "s3cret-" + "0123456789" * 40
    lines = 2 * MAX_STDERR // len(secret)
    ended = await sh(
        f"for n in $(seq {lines}); do printf '%s' '{secret}' >&2; done; exit 1", hidden=(secret,)
    )
    assert b"0123456789" not in ended.complaint
    assert b"<secret>" in ended.complaint
