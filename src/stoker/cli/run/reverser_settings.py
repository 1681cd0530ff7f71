"""Turns the options of `stoker reverser` into its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from stoker.cli.common import option_types
from stoker.cli.run.dashboard import dashboard_parts
from stoker.domain.errors import InvalidValue, Misconfigured
from stoker.domain.quantities import parse_quantity
from stoker.kube.client.token_bucket import RequestRate
from stoker.kube.config.config import ClusterConfig
from stoker.kube.runtime.process import ProcessPart
from stoker.reverser.process import ReverserExtensions, ReverserOptions, ReverserRuntime
from stoker.reverser.selection.preset import excluded_kinds
from stoker.reverser.writer.batch import BatchLimits


def reverser_settings(config: ClusterConfig, home: str, options: Mapping[str, Any]) -> ReverserOptions:
    duration = _seconds(options, "lease_duration")
    if duration != int(duration):
        raise Misconfigured("--lease-duration must be whole seconds")
    try:
        excluded = excluded_kinds(option_types.parse_names(",".join(options["exclude"])))
    except InvalidValue as error:
        raise Misconfigured(f"--exclude: {error.message}") from None
    return ReverserOptions(
        config=config,
        namespace=home,
        # The volume's root belongs to the node, even if we may write to it; our own folder is below it.
        work_dir=options["work_dir"] / "reverser",
        namespaces=option_types.parse_names(options["watch_namespaces"]),
        identity=options["identity"],
        excluded=excluded,
        watch_all=options["watch_all"],
        max_kinds=options["max_kinds"],
        max_concurrent_watches=options["max_concurrent_watches"],
        rate=RequestRate(options["qps"], options["burst"]),
        discovery_refresh=_seconds(options, "discovery_refresh"),
        branch_refresh=_seconds(options, "branch_refresh"),
        max_workers=options["max_workers"],
        max_workers_per_repo=options["max_workers_per_repo"],
        lease_seconds=int(duration),
        renew_seconds=_seconds(options, "lease_renew"),
        health_address=_address(options["health_port"]),
        metrics_address=_address(options["metrics_port"]),
        metrics_prefix=options["metrics_prefix"],
        include_secrets=options["include_secrets"],
        ingest=options["enable_watch_ingestion"],
        require_known_hosts=options["require_known_hosts"],
        limits=BatchLimits(options["batch_max_files"], _bytes(options, "batch_max_bytes"), _wait(options)),
    )


def with_dashboard(
    seams: ReverserExtensions, settings: ReverserOptions, options: Mapping[str, Any]
) -> ReverserExtensions:
    """The same extensions plus the dashboard, if it is on."""
    home = options["dashboard_stop_namespace"] or settings.namespace
    beside = dashboard_parts(options, home, settings.namespaces, rules=True)

    def parts(started: ReverserRuntime) -> Sequence[ProcessPart]:
        return [*seams.parts(started), *beside(started.client, started.clock, started.metrics, {})]

    return replace(seams, parts=parts)


def _seconds(options: Mapping[str, Any], name: str) -> float:
    seconds = option_types.parse_seconds(f"--{name.replace('_', '-')}", options[name])
    if seconds <= 0:
        raise Misconfigured(f"--{name.replace('_', '-')} must be greater than 0")
    return seconds


def _bytes(options: Mapping[str, Any], name: str) -> int:
    try:
        return max(1, parse_quantity(options[name]))
    except InvalidValue as error:
        raise Misconfigured(f"--{name.replace('_', '-')}: {error.message}") from None


def _wait(options: Mapping[str, Any]) -> float:
    """How long a change waits for others before a commit; 0 commits at once."""
    text = str(options["batch_max_wait"])
    return 0.0 if text.strip() in ("0", "0s") else _seconds(options, "batch_max_wait")


def _address(text: str) -> str:
    """A bare port number means that port on every interface."""
    return f":{text}" if text.isdecimal() and text != "0" else text
