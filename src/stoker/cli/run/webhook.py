"""`stoker webhook`: answers admission requests for pods and resources until SIGTERM."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.cli.run.options import server_options
from stoker.domain.errors import Misconfigured

if TYPE_CHECKING:
    from stoker.api.kinds.ignitionsync import IgnitionSyncBaseSpec
    from stoker.domain.intent.source import SecretKey
    from stoker.http_server.tls.setup import SelfSignedCertificates

CERT_DIR = Path("/tmp/k8s-webhook-server/serving-certs")  # noqa: S108 - the usual mount path of operators
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?")
_SECRET_KEY = re.compile(r"([a-z0-9]([-.a-z0-9]*[a-z0-9])?)/([-._a-zA-Z0-9]+)")


@click.command("webhook")
@click.option(
    "--webhook-port", type=click.IntRange(0, 65535), default=9443, show_default=True, help="Reviews."
)
@click.option("--webhook-host", default="", help="Address to listen on. Default: all.")
@click.option(
    "--health-probe-bind-address",
    default=":8081",
    show_default=True,
    help="Address of the health probes; 0 disables them.",
)
@click.option(
    "--metrics-bind-address",
    default=":8080",
    show_default=True,
    help="Address of the metrics; 0 disables them.",
)
@click.option(
    "--cert-dir",
    type=click.Path(path_type=Path),
    help=f"Folder with tls.crt and tls.key that another process renews. Default: {CERT_DIR}, if it exists.",
)
@click.option("--cert-secret", default="", help="Secret for a self-managed certificate.")
@click.option(
    "--service", default="", help="Service of the webhook; its DNS names are put into the certificate."
)
@click.option("--cert-name", multiple=True, help="Additional DNS name or address for the certificate.")
@click.option("--mutating-configuration", multiple=True, help="Configuration to write caBundle into.")
@click.option("--validating-configuration", multiple=True, help="Configuration to write caBundle into.")
@click.option(
    "--conversion-crds",
    is_flag=True,
    help="Write caBundle into the CRDs of Stoker that use webhook conversion.",
)
@click.option("--conversion-crd", multiple=True, help="Write caBundle into one CRD by name.")
@click.option(
    "--namespace", default="", help="Namespace of the webhook. Default: that of its service account."
)
@click.option("--agent-image", default="", help="Image of agents. Default: the image of the webhook.")
@click.option(
    "--agent-image-repository",
    multiple=True,
    help="Additional allowed repository of agent images; a trailing / allows everything below it.",
)
@click.option("--require-digest", is_flag=True, help="Refuse agents whose image is not pinned by a digest.")
@click.option(
    "--repo-size", default="2Gi", show_default=True, help="Size limit of an agent's clones; 0: none."
)
@click.option("--shared-volumes", is_flag=True, help="Mount the shared volumes that the controller creates.")
@click.option(
    "--metadata-key", default="", help="NAME/KEY of the Secret that signs the metadata ConfigMaps for agents."
)
@click.option(
    "--agent-env",
    multiple=True,
    help="NAME=VALUE: environment variable of all agents, for traces (OTEL_…) and audit records (STOKER_…).",
)
@click.option(
    "--pod-selector", default="", help="Labels that a gateway's pod must have, such as app=ignition."
)
@click.option(
    "--refused-pods",
    type=click.Choice(["admit", "deny"]),
    default="admit",
    show_default=True,
    help="Whether a pod whose agent cannot be injected is admitted or denied.",
)
@click.option(
    "--defaults",
    type=click.Path(path_type=Path),
    help="File with defaults for fields that resources leave out.",
)
@click.option(
    "--drain-seconds",
    type=click.FloatRange(0, 60),
    default=5.0,
    show_default=True,
    help="Seconds to keep serving after SIGTERM.",
)
@server_options
def webhook_command(
    webhook_port: int,
    webhook_host: str,
    health_probe_bind_address: str,
    metrics_bind_address: str,
    cert_dir: Path | None,
    cert_secret: str,
    service: str,
    cert_name: tuple[str, ...],
    mutating_configuration: tuple[str, ...],
    validating_configuration: tuple[str, ...],
    conversion_crds: bool,
    conversion_crd: tuple[str, ...],
    namespace: str,
    agent_image: str,
    agent_image_repository: tuple[str, ...],
    require_digest: bool,
    repo_size: str,
    shared_volumes: bool,
    metadata_key: str,
    agent_env: tuple[str, ...],
    pod_selector: str,
    refused_pods: str,
    defaults: Path | None,
    drain_seconds: float,
    kubeconfig: Path | None,
    context: str | None,
    log_level: str,
    log_format: str,
) -> None:
    """Admission webhook: inject agents into pods that request one, and validate resources.

    Every replica serves; there is no leader election.
    """
    import os  # noqa: PLC0415 - --help needs nothing of what follows

    from stoker.cli.run.agent_variables import agent_environment  # noqa: PLC0415
    from stoker.kube.config.config import load_config  # noqa: PLC0415
    from stoker.kube.runtime.process import run_process  # noqa: PLC0415
    from stoker.telemetry.logs import configure_logging  # noqa: PLC0415
    from stoker.webhooks.admission.process import WebhookOptions, WebhookProcess  # noqa: PLC0415

    configure_logging(level=log_level, log_format=log_format)  # type: ignore[arg-type]  # click has checked it
    config = load_config(kubeconfig, context)
    home = namespace or config.namespace
    crds = (*conversion_crd, *(_our_crds() if conversion_crds else ()))
    made = (
        _self_signed_settings(
            cert_secret, service, home, cert_name, mutating_configuration, validating_configuration, crds
        )
        if cert_secret
        else None
    )
    settings = WebhookOptions(
        config=config,
        namespace=home,
        certificate=made or _certificate_folder(cert_dir),
        address=f"{webhook_host}:{webhook_port}"
        if ":" not in webhook_host
        else f"[{webhook_host}]:{webhook_port}",
        health_address=health_probe_bind_address,
        metrics_address=metrics_bind_address,
        agent_image=agent_image,
        pod=os.environ.get("POD_NAME", ""),
        image_repositories=agent_image_repository,
        require_digest=require_digest,
        repo_size="" if repo_size == "0" else repo_size,
        metadata_key=parse_secret_key(metadata_key),
        shared_volumes=shared_volumes,
        agent_environment=agent_environment(agent_env),
        selector=_parse_selector(pod_selector),
        deny_refused=refused_pods == "deny",
        defaults=read_defaults(defaults),
        drain=drain_seconds,
    )
    run_process(lambda: WebhookProcess(settings).run())


def _certificate_folder(given: Path | None, mounted: Path = CERT_DIR) -> Path:
    if given is None and not mounted.is_dir():
        raise Misconfigured(
            "there is no certificate to serve with: "
            f"give --cert-dir or --cert-secret, or mount one at {mounted}"
        )
    return given or mounted


def _self_signed_settings(
    secret: str,
    service: str,
    namespace: str,
    names: tuple[str, ...],
    mutating: tuple[str, ...],
    validating: tuple[str, ...],
    crds: tuple[str, ...],
) -> SelfSignedCertificates:
    from stoker.http_server.tls.ca_bundle import MUTATING, VALIDATING, CaBundleTarget  # noqa: PLC0415
    from stoker.http_server.tls.setup import SelfSignedCertificates  # noqa: PLC0415
    from stoker.kube.client.resources import CRDS  # noqa: PLC0415

    served = (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local") if service else ()
    if not served and not names:
        raise Misconfigured("a certificate needs a name: give --service or --cert-name")
    wanted = ((MUTATING, mutating), (VALIDATING, validating), (CRDS, crds))
    targets = tuple(
        CaBundleTarget(resource, name) for resource, given in wanted for name in dict.fromkeys(given)
    )
    return SelfSignedCertificates(secret, (*served, *names), targets)


def _our_crds() -> tuple[str, ...]:
    from stoker.api.registry import KINDS  # noqa: PLC0415

    return tuple(f"{kind.plural}.{kind.group}" for kind in KINDS)


def _parse_selector(text: str) -> dict[str, str | None]:
    """Parse `app=ignition,tier`: labels with a required value, or with any value."""
    found: dict[str, str | None] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, equals, value = part.partition("=")
        if not _LABEL.fullmatch(name) or (value and not _LABEL.fullmatch(value)):
            raise Misconfigured(f"--pod-selector: {part[:80]!r} is neither LABEL nor LABEL=VALUE")
        found[name] = value if equals else None
    return found


def parse_secret_key(text: str) -> SecretKey | None:
    from stoker.domain.intent.source import SecretKey  # noqa: PLC0415

    if not text:
        return None
    match = _SECRET_KEY.fullmatch(text)
    if match is None:
        raise Misconfigured(f"--metadata-key: {text[:80]!r} is not NAME/KEY of a Secret")
    return SecretKey(match[1], match[3])


def read_defaults(path: Path | None) -> IgnitionSyncBaseSpec:
    from stoker.api.manifests.yaml import load_documents  # noqa: PLC0415
    from stoker.api.to_intent import NO_DEFAULTS  # noqa: PLC0415
    from stoker.api.to_intent.inheritance import installation_defaults  # noqa: PLC0415
    from stoker.kube.config.files import read_bounded  # noqa: PLC0415

    if path is None:
        return NO_DEFAULTS
    found = list(load_documents(read_bounded(path, f"defaults file {path}")))
    if not found:
        return NO_DEFAULTS
    if len(found) > 1 or not isinstance(found[0], dict):
        raise Misconfigured(f"defaults file {path} does not hold one YAML mapping")
    return installation_defaults(found[0])
