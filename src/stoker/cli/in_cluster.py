"""The options by which a verb means a resource in a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from stoker.cli.sections import option
from stoker.fleet.naming import KINDS, Named

if TYPE_CHECKING:
    from stoker.kube.client import Client

SECTION = "In a cluster"
NAME = option("--name", section=SECTION, metavar="NAME", help="The resource that is meant.")
NAMESPACE = option(
    "--namespace", section=SECTION, default="default", show_default=True, help="Where the resource lives."
)
CONNECTING = (
    option("--kubeconfig", section=SECTION, type=Path, metavar="FILE", help="[default: as kubectl finds it]"),
    option("--context", "cluster", section=SECTION, metavar="NAME", help="Context of the kubeconfig."),
)
REACHING = (
    option(
        "--kind",
        section=SECTION,
        type=click.Choice(KINDS),
        help="What it is. [default: whichever of the two has the name]",
    ),
    *CONNECTING,
)


class Place(NamedTuple):
    """Which resource, and how to get there."""

    namespace: str
    name: str
    kind: str | None = None
    kubeconfig: Path | None = None
    context: str | None = None

    @classmethod
    def taken_from(cls, options: dict[str, Any], namespace: str, name: str) -> Place:
        kind, kubeconfig, cluster = (options.pop(one) for one in ("kind", "kubeconfig", "cluster"))
        return cls(namespace, name, kind, kubeconfig, cluster)

    @property
    def named(self) -> Named:
        return Named(self.namespace, self.name, self.kind)

    def client(self) -> Client:
        """For an `async with`."""
        from stoker.kube.client import Client  # noqa: PLC0415 - --help needs none of it
        from stoker.kube.config import load  # noqa: PLC0415

        return Client(load(self.kubeconfig, self.context), user_agent="stoker-cli")
