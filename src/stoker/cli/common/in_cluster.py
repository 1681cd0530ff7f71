"""The options that select a cluster and a resource in it, and the client that they lead to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from stoker.cli.common.help_sections import option
from stoker.domain.errors import InvalidValue
from stoker.fleet.resource_name import KINDS, ResourceName

if TYPE_CHECKING:
    from stoker.kube.client.client import KubeClient
    from stoker.kube.config.config import ClusterConfig

SECTION = "In a cluster"
NAME = click.argument(
    "name", required=False, metavar="[[KIND/]NAME]", help="Name of the resource, as line-1 or stoker/line-1."
)
NAMESPACE = option(
    "-n",
    "--namespace",
    section=SECTION,
    default="",
    metavar="NAME",
    help="Namespace of the resource. [default: the namespace of the context]",
)
CONNECTION_OPTIONS = (
    option("--kubeconfig", section=SECTION, type=Path, metavar="FILE", help="[default: as kubectl finds it]"),
    option("--context", "cluster", section=SECTION, metavar="NAME", help="Context of the kubeconfig."),
)
RESOURCE_OPTIONS = (
    option(
        "--kind",
        section=SECTION,
        type=click.Choice(KINDS),
        help="Kind of the resource. [default: the kind that has this name]",
    ),
    *CONNECTION_OPTIONS,
)


class ClusterResourceOptions(NamedTuple):
    """Which resource, and how to reach its cluster."""

    namespace: str
    """Empty: the namespace of the context, which `settled` fills in."""
    name: str
    kind: str | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    config: ClusterConfig | None = None
    """The kubeconfig's content, once it was read."""

    @classmethod
    def taken_from(cls, options: dict[str, Any], namespace: str, name: str) -> ClusterResourceOptions:
        kind, kubeconfig, cluster = (options.pop(key) for key in ("kind", "kubeconfig", "cluster"))
        return cls(namespace, name, kind, kubeconfig, cluster)

    def settled(self, kinds: Sequence[str] = KINDS) -> ClusterResourceOptions:
        """The same with KIND/NAME taken apart, the kubeconfig read and its namespace as the default.

        `kinds` are those that the verb acts on.
        """
        from stoker.kube.config.config import load_config  # noqa: PLC0415 - --help needs none of it

        before, slash, bare = self.name.partition("/")
        kind, name = (_kind_called(before, kinds, self.kind), bare) if slash else (self.kind, self.name)
        config = load_config(self.kubeconfig, self.context)
        namespace = self.namespace or config.namespace
        return self._replace(namespace=namespace, name=name, kind=kind, config=config)

    @property
    def named(self) -> ResourceName:
        return ResourceName(self.namespace, self.name, self.kind)

    def client(self) -> KubeClient:
        """A client for an `async with`."""
        from stoker.kube.client.client import KubeClient  # noqa: PLC0415 - --help needs none of it
        from stoker.kube.config.config import load_config  # noqa: PLC0415

        config = self.config if self.config is not None else load_config(self.kubeconfig, self.context)
        return KubeClient(config, user_agent="stoker-cli")


def _kind_called(word: str, kinds: Sequence[str], option: str | None) -> str:
    """The kind in front of a name; `--kind` may only repeat it."""
    kind = next((kind for kind in kinds if word.lower() in (kind.lower(), f"{kind.lower()}s")), None)
    if kind is None:
        raise InvalidValue(f"{word[:80]!r} is not a kind of resource here: {', '.join(kinds)}")
    if option not in (None, kind):
        raise InvalidValue(f"--kind {option} contradicts {word}/")
    return kind
