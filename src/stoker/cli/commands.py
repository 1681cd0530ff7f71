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
            "stoker.cli.sync.sync", "sync_command", "Bring a folder to a commit, once or for ever."
        ),
        "plan": CommandEntry(
            "stoker.cli.sync.plan", "plan_command", "Show what a sync would do, and change nothing."
        ),
        "verify": CommandEntry(
            "stoker.cli.sync.verify", "verify_command", "Find what changed since the last sync."
        ),
        "rollback": CommandEntry(
            "stoker.cli.sync.rollback",
            "rollback_command",
            "Go back to a snapshot or a commit, and stay there.",
        ),
        "doctor": CommandEntry(
            "stoker.cli.doctor.command", "doctor_command", "Say what is wrong with a cluster or a gateway."
        ),
        "dev": CommandEntry("stoker.cli.sync.dev", "dev_group", "Try edits on a gateway as they are saved."),
        "testing": CommandEntry(
            "stoker_testkit.testing_command", "testing_group", "Start a gateway to test against."
        ),
        "demo": CommandEntry(
            "stoker_testkit.demo", "demo_command", "See the main job done for real on this machine."
        ),
        "completion": CommandEntry(
            "stoker.cli.completion", "completion_command", "Let a shell complete verbs and options."
        ),
    },
    "Out of a cluster": {
        "export": CommandEntry(
            "stoker.cli.export.command",
            "export_command",
            "Write what a cluster holds to a folder or a repository.",
        ),
    },
    "For a resource in a cluster": {
        "migrate": CommandEntry(
            "stoker.cli.migrate.command",
            "migrate_command",
            "Convert the configuration of another tool into resources.",
        ),
        "status": CommandEntry(
            "stoker.cli.fleet.status", "status_command", "Show how resources and their gateways stand."
        ),
        "history": CommandEntry(
            "stoker.cli.fleet.history", "history_command", "List the last syncs of a resource's gateways."
        ),
        "diff": CommandEntry(
            "stoker.cli.fleet.history", "diff_command", "Show what a sync of a gateway changed."
        ),
        "approve": CommandEntry(
            "stoker.cli.fleet.approve", "approve_command", "Agree to the plan that a resource waits with."
        ),
        "pause": CommandEntry(
            "stoker.cli.fleet.pause",
            "pause_command",
            "Hold a resource still: its gateways stay as they are.",
        ),
        "resume": CommandEntry(
            "stoker.cli.fleet.pause", "resume_command", "Let a resource go on that was held still."
        ),
    },
    "In a cluster": {
        "controller": CommandEntry(
            "stoker.cli.run.controller", "controller_command", "Run the operator's controller."
        ),
        "webhook": CommandEntry(
            "stoker.cli.run.webhook",
            "webhook_command",
            "Put agents into pods, and judge resources (admission).",
        ),
        "agent": CommandEntry(
            "stoker.cli.run.agent", "agent_command", "Keep the gateway of this pod (the sidecar)."
        ),
        "reverser": CommandEntry(
            "stoker.cli.run.reverser",
            "reverser_command",
            "Write the state of the cluster to git, as it changes.",
        ),
        "fetcher": CommandEntry(
            "stoker.cli.run.fetcher", "fetcher_command", "Keep a mirror on a volume that agents share."
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
