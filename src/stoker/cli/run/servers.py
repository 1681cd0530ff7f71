"""Options that every program of the operator has: where its API server is, and how it logs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from stoker.telemetry.logs import LEVELS

F = TypeVar("F", bound=Callable[..., object])

_OPTIONS = (
    click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        help="Default: KUBECONFIG, the pod's account, ~/.kube/config.",
    ),
    click.option("--context", help="Context of the kubeconfig."),
    click.option("--log-level", type=click.Choice(list(LEVELS)), default="info", show_default=True),
    click.option(
        "--log-format", type=click.Choice(["auto", "json", "console"]), default="auto", show_default=True
    ),
)


def server_options(command: F) -> F:
    """`--kubeconfig`, `--context`, `--log-level` and `--log-format`, at the end of the list."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
