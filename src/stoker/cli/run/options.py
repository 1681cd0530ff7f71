"""Options that the operator's processes share: API server, log, and allowed egress."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from stoker.telemetry.logs import LEVELS

if TYPE_CHECKING:
    from stoker.domain.egress import EgressPolicy

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


_EGRESS = (
    click.option(
        "--egress-allow",
        multiple=True,
        help="Network, host or *.domain inside the cluster or on this machine that resources may name, such "
        "as 127.0.0.0/8 or gitea.git.svc. Also: STOKER_EGRESS_ALLOW, separated by commas.",
    ),
    click.option(
        "--egress-cluster-range",
        multiple=True,
        help="Network of pods or Services that resources must not name. Also: STOKER_EGRESS_CLUSTER_RANGES.",
    ),
)
ALLOWED, RANGES = "STOKER_EGRESS_ALLOW", "STOKER_EGRESS_CLUSTER_RANGES"


def egress_options(command: F) -> F:
    """`--egress-allow` and `--egress-cluster-range`: the addresses that the process may connect to."""
    for option in reversed(_EGRESS):
        command = option(command)
    return command


def enforce_egress(allowed: Sequence[str], ranges: Sequence[str], namespace: str = "") -> None:
    """Check every outgoing connection from now on against these options and the environment.

    Services of `namespace` are allowed: an agent may call those of its own namespace.
    """
    from stoker.http_client import egress  # noqa: PLC0415 - --help needs nothing of it

    egress.set_egress_policy(_egress_policy(allowed, ranges, os.environ, namespace))


def check_agent_egress(environment: Mapping[str, str]) -> None:
    """Raise if an agent could not parse these variables."""
    _egress_policy((), (), environment)


def _egress_policy(
    allowed: Sequence[str], ranges: Sequence[str], environ: Mapping[str, str], namespace: str = ""
) -> EgressPolicy:
    from stoker.domain.egress import EgressPolicy  # noqa: PLC0415 - as above

    return EgressPolicy.of(
        [*allowed, *_split_list(environ.get(ALLOWED, ""))],
        [*ranges, *_split_list(environ.get(RANGES, ""))],
        environ,
        namespace,
    )


def _split_list(text: str) -> list[str]:
    return text.replace(",", " ").split()


def server_options(command: F) -> F:
    """`--kubeconfig`, `--context`, `--log-level` and `--log-format`, at the end of the list."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
