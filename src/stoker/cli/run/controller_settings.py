"""Turns the options of `stoker controller` into its settings, and wires in parts of other packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stoker.cli.common import option_types
from stoker.cli.run.agent_variables import agent_environment
from stoker.cli.run.dashboard import dashboard_parts
from stoker.cli.run.receiver import ReceiverFlags, receiver_for
from stoker.cli.run.webhook import parse_secret_key, read_defaults
from stoker.controller.cache.informers import ControllerInformers
from stoker.controller.finalizer.uninstall import UninstallCleanup
from stoker.controller.manager import ControllerExtensions, ControllerOptions
from stoker.controller.owned.fetcher_deployments import FetcherDeployments
from stoker.controller.owned.shared_volume import VolumeFetcher
from stoker.controller.owned.stale_sidecars import SidecarDigest
from stoker.controller.status.status import ReceiverState
from stoker.domain.clock import SystemClock
from stoker.domain.errors import Misconfigured
from stoker.domain.intent.intent import ResourceIntent
from stoker.domain.pods.images import ImageRef
from stoker.domain.pods.injection import AgentInstallation, build_sidecar
from stoker.kube.client.client import KubeClient
from stoker.kube.config.config import ClusterConfig
from stoker.telemetry.probes import parse_address
from stoker.webhooks.receiver.receiver import ReceiverOptions as ReceiverSettings


def controller_settings(config: ClusterConfig, home: str, options: Mapping[str, Any]) -> ControllerOptions:
    shard = option_types.parse_shard(options["shard"])
    if shard.count > 1 and not options["leader_elect"]:
        raise Misconfigured(f"--shard {shard} needs --leader-elect: shards find each other by their Leases")
    return ControllerOptions(
        config=config,
        lease_namespace=home,
        leader_elect=options["leader_elect"],
        shard=shard,
        health_address=options["health_probe_bind_address"],
        metrics_address=options["metrics_bind_address"],
        namespaces=option_types.parse_names(options["watch_namespaces"]),
        labels=options["watch_label_selector"],
        finalizers=not options["no_finalizers"],
        workers=options["workers"],
        git_timeout=options["git_timeout"],
        require_known_hosts=options["require_known_hosts"],
        cluster_name=options["cluster_name"],
        github_app_namespaces=option_types.parse_names(",".join(options["github_app_namespace"])),
        defaults=read_defaults(options["defaults"]),
        forget_after=options["forget_reports_after"],
        shared_volumes=options["shared_volumes"],
        metadata_key=parse_secret_key(options["metadata_key"]),
        pagerduty_url=options["pagerduty_url"],
        audit_events=options["audit_events"],
    )


async def remove_finalizers(settings: ControllerOptions) -> None:
    """Remove our finalizer from every resource before the release is uninstalled."""
    clock = SystemClock()
    async with KubeClient(settings.config, clock=clock, user_agent="stoker-controller") as client:
        await UninstallCleanup(
            client,
            clock,
            leases=settings.leases,
            manager=settings.manager,
            namespaces=settings.namespaces,
            labels=settings.labels,
        ).run()


def controller_seams(settings: ControllerOptions, options: Mapping[str, Any]) -> ControllerExtensions:
    address = parse_address(options["receiver_bind_address"])
    key_file = options["receiver_key_file"]
    calls = ReceiverFlags(
        ReceiverSettings(
            address=options["receiver_bind_address"], trusted_proxies=options["receiver_trusted_proxy"]
        ),
        settings.defaults,
        key_file,
        options["receiver_cert_dir"],
    )
    installation = _installation(settings, options)
    dashboard = dashboard_parts(options, settings.lease_namespace, settings.namespaces)
    return ControllerExtensions(
        sidecar=None if installation is None else _sidecar_builder(installation),
        listener=ReceiverState(None if address is None else address.port, operator_key=key_file is not None),
        receiver=None if address is None else receiver_for(calls),
        fetcher=_fetcher_builder(settings, installation, options["fetcher_pull_secret"]),
        parts=lambda client, observed, clock, metrics: dashboard(client, clock, metrics, observed.complete),
    )


def _installation(settings: ControllerOptions, options: Mapping[str, Any]) -> AgentInstallation | None:
    """The agent installation as the injector configures it; None if the agent's image is not given."""
    if not options["agent_image"]:
        return None
    size = options["repo_size"]
    return AgentInstallation(
        ImageRef.parse(options["agent_image"]),
        options["require_digest"],
        "" if size == "0" else size,
        settings.metadata_key,
        settings.shared_volumes,
        agent_environment(options["agent_env"]),
        tuple(options["agent_image_repository"]),
    )


def _sidecar_builder(installation: AgentInstallation) -> SidecarDigest:
    """Return a function that computes the digest of the sidecar that the injector would build."""

    def digest(intent: ResourceIntent, image: str) -> str:
        return build_sidecar(intent, installation, image).digest

    return digest


def _fetcher_builder(
    settings: ControllerOptions, installation: AgentInstallation | None, pull_secrets: Sequence[str]
) -> Callable[[ControllerInformers, KubeClient], VolumeFetcher] | None:
    """Return what builds the fetchers of shared volumes; None if those are off."""
    if not settings.shared_volumes:
        return None
    if installation is None:
        raise Misconfigured("--shared-volumes needs --agent-image: fetchers run the same image")
    return lambda observed, client: FetcherDeployments(
        observed, client, installation, SystemClock(), pull_secrets
    )
