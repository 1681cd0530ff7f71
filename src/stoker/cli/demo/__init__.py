"""`stoker demo`: the main job in both directions, done for real on this machine.

A story in four acts: a push that gateways follow, an edit on a gateway that comes to git, a
change in the cluster that comes to git with its author, a bad commit that is taken back.
Everything is real but the gateways, which are the test gateways that the product ships. It
works in one temporary folder, and nothing is left running.
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

from stoker.cli.demo.cluster import Cluster, labeler
from stoker.cli.demo.output import act, say
from stoker.cli.demo.standalone import Standalone


@click.command("demo")
@click.option("--no-cluster", is_flag=True, help="Only what needs no API server.")
@click.option("--operator", is_flag=True, help="The same story with the whole operator and five gateways.")
@click.option("--stay", is_flag=True, help="Keep the last stage, with its dashboard, until Ctrl-C.")
def demo_command(no_cluster: bool, operator: bool, stay: bool) -> None:
    """See configuration flow from Git to gateways and back, and a cluster's changes into Git."""
    if operator and no_cluster:
        raise click.UsageError("--operator needs a cluster")
    # Whoever ends it politely wants everything taken away that it has started.
    for number in (signal.SIGTERM, signal.SIGINT):  # a shell's background jobs ignore the second one
        signal.signal(number, signal.default_int_handler)
    # A client that goes in the middle of an answer of our git server is no news.
    logging.getLogger("aiohttp.server").addHandler(logging.NullHandler())
    if operator:
        _show_operator(stay=stay)
    else:
        _show(no_cluster=no_cluster, stay=stay)


def _show(*, no_cluster: bool, stay: bool) -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stoker-demo-") as folder, ExitStack() as stage:
        alone = Standalone(Path(folder), stage)
        alone.open_repository(labeler())
        cluster = None if no_cluster else Cluster(alone, stage)
        alone.set_the_stage()
        if cluster is None:
            acts = [alone.push, alone.edit_by_hand, alone.break_one]
        elif cluster.is_built:
            acts = [alone.push, cluster.edit_on_a_gateway, cluster.change_in_the_cluster, alone.break_one]
        else:
            say("the control plane is built meanwhile, once on this machine: acts without it come first")
            acts = [alone.push, alone.break_one, cluster.edit_on_a_gateway, cluster.change_in_the_cluster]
        for number, play in enumerate(acts, start=1):
            play(number)
        took = time.monotonic() - began - (cluster.waited if cluster is not None else 0.0)
        if stay:
            _stay(alone.show_what_stays, *([cluster.show_dashboard] if cluster is not None else []))
    act(f"Done in {took:.0f} s; nothing is left running, nothing is left on disk")
    say("push             two gateways took a commit, and each showed that it runs it")
    if cluster is not None:
        say("edit             what a designer saved came to git as a branch, was merged, and stayed")
        say("change           what alice changed in the cluster is a commit of hers")
    else:
        say("edit             what somebody changed by hand was found and put back")
    say("break            a commit that a gateway does not load was taken back; the next one mended it")
    act("To try next")
    say("stoker demo --stay         the same, and the dashboard stays open")
    say("make demo-cluster          the same with the whole operator: chart, webhooks, five gateways")
    say("stoker plan --help         what a sync of your own gateway would change; it writes nothing")
    say("stoker sync --watch …      follow a branch for ever; docs/standalone.md has a service for it")


def _show_operator(*, stay: bool) -> None:
    from stoker.cli.demo.operator import OperatorDemo  # noqa: PLC0415 - the rest of the demo needs none of it

    OperatorDemo.set_up()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stoker-demo-") as folder, ExitStack() as stage:
        demo = OperatorDemo(Path(folder), stage)
        demo.install()
        demo.start_gateways()
        acts = (demo.push, demo.edit_on_a_gateway, demo.change_in_the_cluster, demo.break_one)
        for number, play in enumerate(acts, start=1):
            play(number)
        took = time.monotonic() - began
        if stay:
            _stay(demo.show_what_stays)
        demo.take_it_away()
    act(f"Done in {took:.0f} s; nothing is left running, nothing is left on disk")
    say("push             five gateways were told by one webhook; two of them had something to do")
    say("edit             what a designer saved came to git as a branch, was merged, and stayed")
    say("change           what alice changed in the cluster is a commit of hers")
    say("break            a commit that a gateway does not load was taken back; the next one mended it")
    act("To try next")
    say("the same on a cluster of yours, with the chart in charts/stoker: docs/install.md")


def _stay(*shown: Callable[[], None]) -> None:
    """Until Ctrl-C."""
    with suppress(KeyboardInterrupt):
        act("The stage stays until Ctrl-C")
        for show in shown:
            show()
        threading.Event().wait()
