"""The reference page and the help know the same flags."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from stoker.cli.doctor.command import doctor_command
from stoker.cli.export.command import export_command
from stoker.cli.fleet.approve import approve_command
from stoker.cli.fleet.history import diff_command, history_command
from stoker.cli.fleet.pause import pause_command, resume_command
from stoker.cli.fleet.status import status_command
from stoker.cli.migrate.command import migrate_command
from stoker.cli.run.agent import agent_command
from stoker.cli.run.controller import controller_command
from stoker.cli.run.reverser import reverser_command
from stoker.cli.sync.dev import dev_watch_command
from stoker.cli.sync.plan import plan_command
from stoker.cli.sync.rollback import rollback_command
from stoker.cli.sync.sync import sync_command
from stoker.cli.sync.verify import verify_command
from stoker_testkit.gateway.command import gateway_command

PAGE = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
COMMANDS = [
    sync_command,
    plan_command,
    verify_command,
    dev_watch_command,
    doctor_command,
    export_command,
    agent_command,
    approve_command,
    controller_command,
    gateway_command,
    reverser_command,
    rollback_command,
    status_command,
    history_command,
    diff_command,
    pause_command,
    resume_command,
    migrate_command,
]
SELF_EXPLAINING = {
    "--help",
    "--cache-dir",
    "--once",
    "--dry-run",
    "--owner",
    "--umask",
    "--gateway-ca-file",
    "--gateway-insecure",
    "--no-tls",
    "--log-level",
    "--log-format",
}


def flags(command: click.Command) -> set[str]:
    return {name for one in command.params for name in one.opts if name.startswith("--")} | {"--help"}


def test_every_flag_that_needs_a_word_has_one() -> None:
    known = set().union(*map(flags, COMMANDS))
    assert known - SELF_EXPLAINING - set(re.findall(r"--[a-z][a-z-]*", PAGE)) == {"--filename"}


def test_the_page_names_no_flag_that_there_is_not() -> None:
    known = set().union(*map(flags, COMMANDS))
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE)) <= known


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command.name))
def test_every_option_is_explained(command: click.Command) -> None:
    context = click.Context(command)
    for one in command.params:
        record = one.get_help_record(context)
        assert record is not None
        assert record[1].strip(), one.name
