"""`stoker testing`: the test doubles that users can start."""

from __future__ import annotations

import click

from stoker_testkit.gateway.command import gateway_command


@click.group("testing")
def testing_group() -> None:
    """Start test doubles, such as a test gateway."""


testing_group.add_command(gateway_command)
