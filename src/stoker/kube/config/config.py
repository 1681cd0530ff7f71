"""Finds the API server and the credentials of this process.

`load_config` runs once at start-up; its result is a frozen value that the transport reads. It uses the first
of these that exists:

1. the file named by the caller,
2. the files of the variable KUBECONFIG, of which some may be missing,
3. the service account of the pod, where KUBERNETES_SERVICE_HOST is set,
4. `~/.kube/config`.

Any error is raised here, before anything else starts, as one sentence that names the file, the context and
the reason (`Misconfigured`). No such sentence contains a secret.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import Misconfigured
from stoker.domain.secrets import Secret
from stoker.kube.config import proxy as proxy_settings
from stoker.kube.config.credentials import (
    FileCredentials,
    KubeCredentials,
    RequestIdentity,
    StaticCredentials,
    bearer_header_from_file,
)
from stoker.kube.config.files import read_bounded
from stoker.kube.config.tls import ServerTrust

if TYPE_CHECKING:
    from stoker.kube.config.kubeconfig import KubeconfigCluster, KubeconfigEntry

ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """One cluster with the credentials of one user."""

    server: str
    """Scheme, host, port and optionally a path, without a slash at the end."""
    namespace: str = "default"
    """The default namespace of commands."""
    credentials: KubeCredentials = field(default_factory=StaticCredentials)
    trust: ServerTrust = field(default_factory=ServerTrust)
    proxy: Secret | None = None
    """The proxy's address; it may contain a password."""
    impersonate: tuple[tuple[str, str], ...] = ()
    """The Impersonate-* headers for the `as` fields of the kubeconfig."""
    source: str = "given settings"
    """Where the settings were read, for messages."""


def load_config(
    path: Path | None = None,
    context: str | None = None,
    *,
    allow_exec: bool = True,
    environ: Mapping[str, str] = os.environ,
    account: Path = ACCOUNT_FOLDER,
    clock: Clock = SystemClock(),  # noqa: B008 - it has no state
) -> ClusterConfig:
    """Return the configuration of this process; `account` is the folder of the pod's service account.

    `allow_exec=True` is for a kubeconfig of the user who runs the command. A kubeconfig from another person,
    read from an object of the cluster, must name neither a command nor a file of this machine; read it with
    `allow_exec=False`.
    """
    if path is None and not environ.get("KUBECONFIG") and environ.get("KUBERNETES_SERVICE_HOST"):
        if context is not None:
            raise Misconfigured(f"the context {context!r} was asked for, yet inside a pod there are none")
        return in_cluster_config(environ, clock=clock, folder=account)
    # A pod has no kubeconfig, and should not load its parser, which would stay in memory.
    from stoker.kube.config import kubeconfig  # noqa: PLC0415
    from stoker.kube.config.users import KubeconfigLogin  # noqa: PLC0415

    files = kubeconfig.read_kubeconfig(_kubeconfig_files(path, environ))
    chosen = files.choose(context)
    where = f"the cluster of the context {chosen.name!r} of {chosen.cluster.file}"
    cluster = chosen.cluster.value
    server = _check_server(cluster.server, where)
    user = KubeconfigLogin(chosen.user_name, chosen.user, allow_exec, clock, environ)
    if cluster.proxy_url:
        proxy: Secret | None = proxy_settings.check_proxy(cluster.proxy_url.reveal(), where)
    else:
        proxy = proxy_settings.proxy_from_environment(server, environ)
    trust = _cluster_trust(chosen.cluster, where, own=allow_exec)
    return ClusterConfig(
        server=server,
        namespace=chosen.namespace,
        credentials=user.credentials(_exec_cluster_info(cluster, server, trust)),
        trust=trust,
        proxy=proxy,
        impersonate=user.impersonation(),
        source=f"the context {chosen.name!r} of {files}",
    )


def in_cluster_config(
    environ: Mapping[str, str], *, clock: Clock, folder: Path = ACCOUNT_FOLDER
) -> ClusterConfig:
    """Return the configuration of the pod's service account.

    The kubelet replaces its token and CA while we run.
    """
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT") or "443"
    bracketed = f"[{host}]" if ":" in host else host
    server = _check_server(f"https://{bracketed}:{port}", "the variable KUBERNETES_SERVICE_HOST")
    trust = ServerTrust(ca_file=folder / "ca.crt")
    trust.context()
    try:
        namespace = read_bounded(folder / "namespace", "the pod's namespace file").decode().strip()
    except (Misconfigured, UnicodeDecodeError):
        namespace = ""
    return ClusterConfig(
        server=server,
        namespace=namespace or "default",
        credentials=FileCredentials(
            lambda: RequestIdentity(bearer_header_from_file(folder / "token")), clock
        ),
        trust=trust,
        source="the pod's service account",
    )


def _kubeconfig_files(path: Path | None, environ: Mapping[str, str]) -> list[Path]:
    if path is not None:
        return [path]
    listed = [Path(name) for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if not listed:
        return [Path(environ.get("HOME") or Path.home()) / ".kube" / "config"]
    present = [file for file in listed if file.exists()]
    return present or listed[:1]  # if none exists, reading the first raises the error


def _check_server(address: str, where: str) -> str:
    if not address:
        raise Misconfigured(f"{where} names no server")
    try:
        parts = urlsplit(address)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.username or parts.password or parts.query or parts.fragment:
        raise Misconfigured(f"{where} names a server that is not of the form https://host:port/path")
    return address.rstrip("/")


def _cluster_trust(cluster: KubeconfigEntry[KubeconfigCluster], where: str, *, own: bool) -> ServerTrust:
    from stoker.kube.config.users import decode_base64  # noqa: PLC0415

    said = cluster.value
    if said.insecure_skip_tls_verify and (said.certificate_authority or said.certificate_authority_data):
        raise Misconfigured(f"{where} names a certificate authority and asks not to check it")
    if said.certificate_authority and not own:
        raise Misconfigured(f"{where} names a file, which a kubeconfig that is not one's own must not")
    data = said.certificate_authority_data
    trust = ServerTrust(
        ca_data=decode_base64(data, f"the certificate authority of {where}") if data else None,
        ca_file=cluster.resolve(said.certificate_authority)
        if said.certificate_authority and not data
        else None,
        insecure=said.insecure_skip_tls_verify,
        server_name=said.tls_server_name or None,
    )
    trust.context()  # raises now, not at the first request, if the CA cannot be read
    return trust


def _exec_cluster_info(cluster: KubeconfigCluster, server: str, trust: ServerTrust) -> Mapping[str, object]:
    """Return `spec.cluster` of an ExecCredential."""
    authority = trust.authority()
    told: dict[str, object] = {
        "server": server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(authority).decode() if authority else "",
        "proxy-url": cluster.proxy_url.reveal() if cluster.proxy_url else "",
    }
    for extension in cluster.extensions or ():
        if extension.get("name") == "client.authentication.k8s.io/exec":
            told["config"] = extension.get("extension")
    return {key: value for key, value in told.items() if value}
