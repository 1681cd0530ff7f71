"""`stoker demo`: shows the product at work on this machine.

Without a cluster: two gateways follow a Git repository through a push, a change by hand and a commit that a
gateway cannot load. With `--cluster`: the whole operator on a real control plane, in both directions.
Everything is real except the gateways, which are the test gateways of this package. The demo works in one
temporary folder, and stops every process that it started.
"""

from __future__ import annotations

import logging
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import click

from stoker_testkit.demo.output import say, title


@click.command("demo")
@click.option(
    "--cluster/--no-cluster",
    default=False,
    help="With a Kubernetes control plane and the whole operator; the first run builds it for minutes.",
)
@click.option("--stay", is_flag=True, help="Keep everything running, with the dashboard, until Ctrl-C.")
def demo_command(cluster: bool, stay: bool) -> None:
    """See a commit reach two gateways, a bad one rolled back, and a change by hand restored."""
    # SIGTERM ends the demo like Ctrl-C, so that everything it started is stopped. A shell's background
    # jobs ignore SIGINT unless it is set again.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    # A client that disconnects in the middle of an answer of the Git server is not an error here.
    logging.getLogger("aiohttp.server").addHandler(logging.NullHandler())
    if cluster:
        _run_cluster(stay=stay)
    else:
        _run_standalone(stay=stay)


def _run_standalone(*, stay: bool) -> None:
    from stoker_testkit.demo.standalone import StandaloneDemo  # noqa: PLC0415 - only what this demo needs

    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stoker-demo-") as folder, ExitStack() as stack:
        demo = StandaloneDemo(Path(folder), stack)
        demo.set_up()
        for number, step in enumerate((demo.push, demo.change_by_hand, demo.break_one), start=1):
            step(number)
        took = time.monotonic() - began
        if stay:
            _stay(demo.show_what_stays)
    title(f"Done in {took:.0f} s. All processes are stopped and all files are removed.")
    say("Proven: two gateways loaded a commit, a change by hand was restored, a bad commit was rolled back.")
    title("Next")
    say("stoker demo --stay   keeps all of it running, with the dashboard, until Ctrl-C")
    say("make demo-cluster    shows the operator in a Kubernetes cluster, in both directions: five gateways,")
    say("                     a branch from a gateway, a cluster's changes in Git. Its first run builds a")
    say("                     control plane: 5 to 15 minutes and 6 GB of disk, once.")
    say("stoker plan --help   shows what a sync of your own gateway would change, and writes nothing")
    say("docs/quick-start     leads from here to your own gateway or cluster")


def _run_cluster(*, stay: bool) -> None:
    from stoker_testkit.demo.cluster import ClusterDemo  # noqa: PLC0415 - the other demo needs none of it

    ClusterDemo.build()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stoker-demo-") as folder, ExitStack() as stack:
        demo = ClusterDemo(Path(folder), stack)
        demo.install()
        demo.start_gateways()
        steps = (demo.push, demo.change_on_a_gateway, demo.change_in_the_cluster, demo.break_one)
        for number, step in enumerate(steps, start=1):
            step(number)
        took = time.monotonic() - began
        if stay:
            _stay(demo.show_what_stays)
        demo.uninstall()
    title(f"Done in {took:.0f} s. All processes are stopped and all files are removed.")
    say("Proven: one webhook reached five gateways, a change on a gateway became a branch in Git,")
    say("a change in the cluster became a commit by its author, and a bad commit was rolled back.")
    title("Next")
    say("docs/install.md      the same on your own cluster, with the chart in charts/stoker")


def _stay(show: Callable[[], None]) -> None:
    """Keep everything running until Ctrl-C."""
    with suppress(KeyboardInterrupt):
        title("Everything keeps running until Ctrl-C")
        show()
        threading.Event().wait()
