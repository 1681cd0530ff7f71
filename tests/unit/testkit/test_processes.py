"""Servers start with a log, say why they died, and leave no process behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from stoker_testkit import processes
from stoker_testkit.processes import PortTaken, Process, ProcessFailed, free_port, free_ports, on_free_ports
from stoker_testkit.wait_until import eventually


def shell(log: Path, script: str) -> Process:
    return Process.start("server", ["/bin/sh", "-c", script], log=log)


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_is_ready_when_the_condition_says_so(tmp_path: Path) -> None:
    marker = tmp_path / "ready"
    with shell(tmp_path / "log", f"touch {marker}; exec sleep 1000") as server:
        server.wait_ready(marker.exists, 10)
        assert server.running
    assert not server.running
    assert server.returncode == -signal.SIGTERM


def test_a_server_that_dies_shows_the_end_of_its_log(tmp_path: Path) -> None:
    script = "for i in $(seq 100); do echo line $i; done; echo no such flag >&2; exit 3"
    with (
        shell(tmp_path / "log", script) as server,
        pytest.raises(ProcessFailed, match="exit code 3") as caught,
    ):
        server.wait_ready(lambda: False, 10)
    assert "line 99\nline 100\nno such flag" in caught.value.message
    assert "line 1\n" not in caught.value.message
    assert str(tmp_path / "log") in caught.value.message


def test_a_server_that_is_killed_names_the_signal(tmp_path: Path) -> None:
    with (
        shell(tmp_path / "log", "kill -SEGV $$") as server,
        pytest.raises(ProcessFailed, match="signal SIGSEGV"),
    ):
        server.wait_ready(lambda: False, 10)


def test_a_server_that_is_not_ready_in_time_is_reported(tmp_path: Path) -> None:
    with (
        shell(tmp_path / "log", "echo still loading; exec sleep 1000") as server,
        pytest.raises(ProcessFailed, match=r"not ready within 0\.3 s(.|\n)*still loading"),
    ):
        server.wait_ready(lambda: False, 0.3)


def test_a_server_that_is_dead_is_not_ready_even_if_another_one_answers(tmp_path: Path) -> None:
    with shell(tmp_path / "log", "echo bind: Address already in use; exit 1") as server:
        assert server.wait(10)
        with pytest.raises(PortTaken):
            server.wait_ready(lambda: True, 10)


def test_a_server_that_ignores_the_request_to_end_is_made_to(tmp_path: Path) -> None:
    marker = tmp_path / "trapped"
    server = shell(tmp_path / "log", f"trap '' TERM; touch {marker}; while :; do sleep 0.01; done")
    server.wait_ready(marker.exists, 10)
    server.stop(grace=0.1)
    assert server.returncode == -signal.SIGKILL


def test_children_of_a_server_end_with_it(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    with shell(tmp_path / "log", f"sleep 1000 & echo $! > {file}.new; mv {file}.new {file}; wait") as server:
        server.wait_ready(file.exists, 10)
        child = int(file.read_text())
        assert alive(child)
    eventually(lambda: not alive(child), message="the server's child is gone")


def test_stopping_twice_is_harmless(tmp_path: Path) -> None:
    server = shell(tmp_path / "log", "exec sleep 1000")
    server.stop()
    server.stop()
    server.kill()
    assert not server.running


def test_a_server_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib\n"
        "from stoker_testkit.processes import Process\n"
        "server = Process.start('server', ['sleep', '1000'], log=pathlib.Path(sys.argv[1]))\n"
        "print(server.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, tmp_path / "log"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        server = int(parent.stdout.readline())
        assert alive(server)
        os.kill(parent.pid, signal.SIGKILL)
    eventually(lambda: not alive(server), message="the server is gone with its parent")


def test_a_server_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    started: list[Process] = []
    thread = threading.Thread(target=lambda: started.append(shell(tmp_path / "log", "exec sleep 1000")))
    thread.start()
    thread.join()
    with started[0] as server:
        assert not server.wait(0.2)


def test_a_port_is_given_to_one_process_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import sys\n"
        "from stoker_testkit.processes import free_port\n"
        "print(free_port(), flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        monkeypatch.setattr(processes, "_PORTS", (port - 25, port + 25))
        assert port not in free_ports(40)


def test_free_ports_are_different_and_can_be_bound() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    with socket.create_server(("127.0.0.1", free_port())):
        pass


def test_a_lost_port_is_tried_again_with_another() -> None:
    tried: list[int] = []

    def start(ports: list[int]) -> str:
        tried.extend(ports)
        if len(tried) < 3:
            raise PortTaken("taken")
        return "up"

    assert on_free_ports(1, start) == "up"
    assert len(tried) == 3


def test_other_failures_and_endless_bad_luck_are_passed_on() -> None:
    def broken(_: list[int]) -> None:
        raise ProcessFailed("broken")

    def taken(_: list[int]) -> None:
        raise PortTaken("taken")

    with pytest.raises(ProcessFailed, match="broken"):
        on_free_ports(1, broken)
    with pytest.raises(PortTaken):
        on_free_ports(1, taken)
