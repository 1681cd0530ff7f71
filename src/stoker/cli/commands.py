"""The table of all verbs, in groups; the module of a verb is imported only when the verb runs."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import click

from stoker import __version__
from stoker.domain.errors import Misconfigured


class CommandEntry(NamedTuple):
    module: str
    command: str
    summary: str


GROUPS = {
    "Without a cluster": {
        "sync": CommandEntry(
            "stoker.cli.sync.sync",
            "sync_command",
            "Sync a gateway's data folder from git, once or continuously.",
        ),
        "plan": CommandEntry(
            "stoker.cli.sync.plan", "plan_command", "Show what a sync would change, without changing it."
        ),
        "verify": CommandEntry(
            "stoker.cli.sync.verify", "verify_command", "Report drift: files changed since the last sync."
        ),
        "rollback": CommandEntry(
            "stoker.cli.sync.rollback",
            "rollback_command",
            "Roll back to a snapshot or a commit, and stay there.",
        ),
        "doctor": CommandEntry(
            "stoker.cli.doctor.command", "doctor_command", "Diagnose a cluster or a gateway."
        ),
        "dev": CommandEntry(
            "stoker.cli.sync.dev", "dev_group", "Sync a working copy to a gateway on every save."
        ),
        "testing": CommandEntry(
            "stoker_testkit.testing_command", "testing_group", "Start a simulated gateway for tests."
        ),
        "demo": CommandEntry(
            "stoker_testkit.demo", "demo_command", "Run a complete sync on this machine as a demonstration."
        ),
        "completion": CommandEntry(
            "stoker.cli.completion", "completion_command", "Print a completion script for a shell."
        ),
    },
    "From a cluster to git": {
        "export": CommandEntry(
            "stoker.cli.export.command",
            "export_command",
            "Write the objects of a cluster to a folder or a repository.",
        ),
    },
    "Resources in a cluster": {
        "migrate": CommandEntry(
            "stoker.cli.migrate.command",
            "migrate_command",
            "Convert the configuration of another tool into resources.",
        ),
        "status": CommandEntry(
            "stoker.cli.fleet.status", "status_command", "Show the status of resources and their gateways."
        ),
        "history": CommandEntry(
            "stoker.cli.fleet.history", "history_command", "List the last syncs of a resource's gateways."
        ),
        "diff": CommandEntry(
            "stoker.cli.fleet.history", "diff_command", "Show what a sync of a gateway changed."
        ),
        "approve": CommandEntry(
            "stoker.cli.fleet.approve", "approve_command", "Approve the pending plan of a resource."
        ),
        "pause": CommandEntry(
            "stoker.cli.fleet.pause",
            "pause_command",
            "Pause a resource: nothing is synced to its gateways.",
        ),
        "resume": CommandEntry("stoker.cli.fleet.pause", "resume_command", "Resume a paused resource."),
    },
    "Cluster components": {
        "controller": CommandEntry("stoker.cli.run.controller", "controller_command", "Run the controller."),
        "webhook": CommandEntry(
            "stoker.cli.run.webhook",
            "webhook_command",
            "Run the admission webhook: inject agents, validate resources.",
        ),
        "agent": CommandEntry(
            "stoker.cli.run.agent", "agent_command", "Run the agent (sidecar of a gateway's pod)."
        ),
        "reverser": CommandEntry(
            "stoker.cli.run.reverser",
            "reverser_command",
            "Run the reverser: write objects of the cluster to git.",
        ),
        "fetcher": CommandEntry(
            "stoker.cli.run.fetcher",
            "fetcher_command",
            "Run the fetcher: keep a git mirror on a shared volume.",
        ),
    },
}

TESTKIT = "stoker_testkit"
"""The package of `demo` and `testing`: a separate distribution, which the extra `demo` installs."""

VERBS = {name: verb for group in GROUPS.values() for name, verb in group.items()}


class LazyCommandGroup(click.Group):
    """A click group that lists its verbs from a table and imports a verb's module only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        verb = VERBS.get(cmd_name)
        if verb is None:
            return None
        try:
            module = import_module(verb.module)
        except ModuleNotFoundError as error:
            if error.name != TESTKIT:
                raise
            return _needs_testkit(cmd_name, verb.summary)
        command = getattr(module, verb.command)
        assert isinstance(command, click.Command)  # noqa: S101 - a wrong entry in VERBS is a bug of ours
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Accept `controller --mode=webhook` as another way to write `webhook`."""
        if args[:1] == ["controller"]:
            joined, apart = "--mode=webhook", ["--mode", "webhook"]
            at = next(
                (at for at in range(1, len(args)) if joined == args[at] or args[at : at + 2] == apart), 0
            )
            if at:
                args = ["webhook", *args[1:at], *args[at + (1 if args[at] == joined else 2) :]]
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            # click suggests similar names only from commands that are loaded; here none is loaded yet.
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=VERBS, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, verbs in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, verb.summary) for name, verb in verbs.items()])


def _needs_testkit(name: str, summary: str) -> click.Command:
    """Build a command that accepts any arguments and fails with what to install; shells still complete it."""

    def refuse() -> None:
        raise Misconfigured(
            f"{name} needs the package stoker-testkit; install stoker with the extra 'demo' "
            "(in a checkout: uv tool install '.[demo]')"
        )

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(
        name, callback=refuse, short_help=summary, add_help_option=False, context_settings=anything
    )


@click.group(cls=LazyCommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="stoker %(version)s")
def cli() -> None:
    """GitOps for Ignition gateways, and a Kubernetes cluster's resources recorded in Git."""
