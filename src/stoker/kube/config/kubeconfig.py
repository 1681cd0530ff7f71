"""Kubeconfig files: read, merge as kubectl does, select a context.

Of several files the first that names a cluster, a user, a context or the current context wins, and a
relative path is relative to its file. This module knows the content of the files; `stoker.kube.config.users`
makes credentials of a user entry, and `stoker.kube.config.config` decides which files are read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import yaml

from stoker.domain.errors import Misconfigured
from stoker.domain.secrets import Secret
from stoker.domain.text import one_line
from stoker.kube.config.credentials import decode_secret
from stoker.kube.config.files import read_bounded

MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 64
MAX_NODES = 100_000

T = TypeVar("T")


class KubeconfigCluster(msgspec.Struct, frozen=True, rename="kebab"):
    """The address of a server and how to verify its certificate."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: Secret | None = None
    extensions: list[dict[str, Any]] | None = None


class ExecVariable(msgspec.Struct, frozen=True):
    """One variable for a credential plug-in.

    All values count as secret, because the file does not mark them.
    """

    name: str
    value: Secret


class KubeconfigExec(msgspec.Struct, frozen=True, rename="camel"):
    """A credential plug-in."""

    command: str
    api_version: str = ""
    args: list[str] | None = None
    env: list[ExecVariable] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class KubeconfigUser(msgspec.Struct, frozen=True, rename="kebab"):
    """The credentials and impersonation of a user."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: Secret | None = None
    token: Secret | None = None
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: Secret | None = None
    exec: KubeconfigExec | None = None
    auth_provider: dict[str, Any] | None = None
    impersonate: str = msgspec.field(default="", name="as")
    impersonate_uid: str = msgspec.field(default="", name="as-uid")
    impersonate_groups: list[str] | None = msgspec.field(default=None, name="as-groups")
    impersonate_extra: dict[str, list[str]] | None = msgspec.field(default=None, name="as-user-extra")


class KubeconfigContext(msgspec.Struct, frozen=True):
    """A cluster, a user and a namespace."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: KubeconfigCluster = KubeconfigCluster()


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: KubeconfigUser | None = None


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: KubeconfigContext = KubeconfigContext()


class _KubeconfigFile(msgspec.Struct, frozen=True, rename="kebab"):
    current_context: str | None = None
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


@dataclass(frozen=True, slots=True)
class KubeconfigEntry(Generic[T]):
    """An entry of a kubeconfig, and the file that contains it."""

    value: T
    file: Path

    def resolve(self, path: str) -> Path:
        """Resolve a path relative to the file."""
        return self.file.parent / path


@dataclass(frozen=True, slots=True)
class SelectedContext:
    """One context with its cluster and user."""

    name: str
    namespace: str
    cluster: KubeconfigEntry[KubeconfigCluster]
    user: KubeconfigEntry[KubeconfigUser]
    user_name: str


@dataclass(slots=True)
class Kubeconfig:
    """All files, merged."""

    files: list[Path] = field(default_factory=list)
    current: str = ""
    clusters: dict[str, KubeconfigEntry[KubeconfigCluster]] = field(default_factory=dict)
    users: dict[str, KubeconfigEntry[KubeconfigUser]] = field(default_factory=dict)
    contexts: dict[str, KubeconfigEntry[KubeconfigContext]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"the kubeconfig {':'.join(map(str, self.files))}"

    def choose(self, name: str | None) -> SelectedContext:
        """Return the context of that name, or the current one."""
        name = name or self.current
        if not name:
            raise Misconfigured(f"{self} names no current context, and none was asked for")
        context = self.contexts.get(name)
        if context is None:
            raise Misconfigured(f"{self} has no context {name!r}")
        where = f"the context {name!r} of {context.file}"
        cluster = self.clusters.get(context.value.cluster)
        if cluster is None:
            raise Misconfigured(
                f"{where} names the cluster {context.value.cluster!r}, which no file describes"
            )
        user = self.users.get(context.value.user)
        if user is None:
            if context.value.user:
                raise Misconfigured(f"{where} names the user {context.value.user!r}, which no file describes")
            user = KubeconfigEntry(KubeconfigUser(), context.file)
        return SelectedContext(name, context.value.namespace or "default", cluster, user, context.value.user)


def read_kubeconfig(paths: Iterable[Path]) -> Kubeconfig:
    """Read and merge the files; earlier files win."""
    merged = Kubeconfig()
    for path in paths:
        content = _parse(read_bounded(path, f"the kubeconfig {path}", MAX_FILE_BYTES), path)
        merged.files.append(path)
        merged.current = merged.current or content.current_context or ""
        for cluster in content.clusters or ():
            merged.clusters.setdefault(cluster.name, KubeconfigEntry(cluster.cluster, path))
        for user in content.users or ():
            merged.users.setdefault(user.name, KubeconfigEntry(user.user or KubeconfigUser(), path))
        for context in content.contexts or ():
            merged.contexts.setdefault(context.name, KubeconfigEntry(context.context, path))
    return merged


def _parse(data: bytes, path: Path) -> _KubeconfigFile:
    try:
        _refuse_yaml_bombs(data, path)
        document = yaml.load(data, Loader=_KubeconfigLoader)  # noqa: S506 - it is a safe loader
    except yaml.YAMLError as error:
        # The parser's own message may quote the file, and the file contains secrets.
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark else ""
        raise Misconfigured(f"the kubeconfig {path} is not YAML{line}") from None
    except (UnicodeDecodeError, ValueError):
        raise Misconfigured(f"the kubeconfig {path} is not YAML") from None
    try:
        return msgspec.convert(document or {}, _KubeconfigFile, strict=False, dec_hook=decode_secret)
    except msgspec.ValidationError as error:
        why = one_line(str(error), 300)
        raise Misconfigured(f"the kubeconfig {path} is not a kubeconfig: {why}") from None


class _KubeconfigLoader(yaml.CSafeLoader):
    """A loader without dates: a context called 2024-01-01 is a name."""


_KubeconfigLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _refuse_yaml_bombs(data: bytes, path: Path) -> None:
    """Refuse files whose nesting or aliases would exhaust the stack or the memory.

    Nesting overflows the loader's stack, and aliases multiply the nodes that are merged and walked later. So
    an alias counts as all nodes that it repeats, and an alias within its own anchor as too many.
    """
    nodes = 0
    sizes: dict[str | None, int] = {}
    opened: list[tuple[str | None, int]] = []
    for event in yaml.parse(data, Loader=yaml.CSafeLoader):
        match event:
            case yaml.AliasEvent():
                nodes += sizes.get(event.anchor, MAX_NODES)
            case yaml.ScalarEvent():
                nodes += 1
                sizes[event.anchor] = 1
            case yaml.CollectionStartEvent():
                opened.append((event.anchor, nodes))
                nodes += 1
                sizes.pop(event.anchor, None)
            case yaml.CollectionEndEvent():
                anchor, before = opened.pop()
                sizes[anchor] = nodes - before
        if len(opened) > MAX_DEPTH or nodes >= MAX_NODES:
            raise Misconfigured(f"the kubeconfig {path} is nested or repeated beyond what a kubeconfig needs")
