"""`stoker demo`: the main job, done for real on this machine.

Everything is real but the gateways, which are the test gateways that the product
ships: a git server that wants a token, `stoker sync`, `plan` and `verify` as
processes of their own, an API server with etcd, two controllers. It works in one
temporary folder, and nothing is left running.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import click

from stoker.cli.demo.cluster import Cluster
from stoker.cli.demo.stage import act, say
from stoker.cli.demo.standalone import Standalone


@click.command("demo")
@click.option("--no-cluster", is_flag=True, help="Only what needs no API server.")
@click.option("--operator", is_flag=True, help="The whole operator, from an empty cluster to five gateways.")
def demo_command(no_cluster: bool, operator: bool) -> None:
    """See configuration flow from Git to two gateways, and through a real API server."""
    if operator:
        if no_cluster:
            raise click.UsageError("--operator needs a cluster")
        _show_operator()
        return
    if not no_cluster:
        Cluster.set_up()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stoker-demo-") as folder, ExitStack() as stage:
        standalone = Standalone(Path(folder), stage)
        cluster = None if no_cluster else Cluster(standalone, stage)
        standalone.open_repository()
        standalone.start_gateways()
        standalone.sync_both()
        standalone.follow_a_change()
        standalone.mend_what_was_broken()
        if cluster is not None:
            cluster.take_the_kinds()
            cluster.refuse_what_is_wrong()
            cluster.lose_the_leader()
    act(f"Done in {time.monotonic() - began:.0f} s; nothing is left running, nothing is left on disk")
    say("Two gateways were brought to a commit, followed the next one, and one was mended after an edit by")
    say("hand. Each was locked while files changed, asked to scan, and believed once it showed its projects.")
    if cluster is not None:
        say("A wrong manifest was refused by its field, and a killed controller was replaced by another.")
    act("To try next")
    say("stoker plan --help         what a sync of your own gateway would change; it writes nothing")
    say("stoker sync --watch …      follow a branch for ever; docs/standalone.md has a service for it")
    say("stoker dev watch --help    see on a gateway what you save, without a commit")
    say("kubectl apply -f config/crd, then kubectl explain stoker.spec    the same in a cluster of yours")


def _show_operator() -> None:
    from stoker.cli.demo.operator import OperatorDemo  # noqa: PLC0415 - the rest of the demo needs none of it

    OperatorDemo.set_up()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stoker-demo-") as folder, ExitStack() as stage:
        demo = OperatorDemo(Path(folder), stage)
        demo.install()
        demo.write_the_line()
        demo.start_gateways()
        demo.watch_them_sync()
        demo.push()
        demo.take_it_away()
    act(f"Done in {time.monotonic() - began:.0f} s; nothing is left running, nothing is left on disk")
    say("To try next: the same on a cluster of yours, with the chart in charts/stoker")
