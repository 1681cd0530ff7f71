"""The blocks about how one gateway may be changed, as `GatewayPolicies`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from stoker.api.kinds.policies import InheritableSpec
from stoker.api.spec import bidirectional as back
from stoker.api.spec import policies as blocks
from stoker.api.spec.gateway import GatewaySpec, IgnitionSpec
from stoker.api.to_intent.annotations.annotations import PodSettings
from stoker.api.to_intent.pod_facts import PREFIX, PodAnnotationKey
from stoker.api.to_intent.snapshots import snapshots_of
from stoker.api.to_intent.values import parse_choice, parse_seconds, parse_size, secret_key, value_or_default
from stoker.domain.intent import policies as intent
from stoker.domain.intent.files import DeletionPolicy
from stoker.domain.intent.intent import Notice
from stoker.domain.quantities import parse_duration
from stoker.domain.reasons import Reason
from stoker.domain.schedule import maintenance_windows

TLS_PORT = 8043


def policies_of(spec: InheritableSpec) -> intent.GatewayPolicies:
    """Return the policies of every gateway of a resource."""
    return intent.GatewayPolicies(
        access=_access(spec.gateway),
        ignition=_ignition(spec.ignition or IgnitionSpec()),
        validation=_validation(spec.validation or blocks.ValidationSpec()),
        drift=_drift(spec.drift or blocks.DriftSpec()),
        snapshots=snapshots_of(spec.snapshots),
        bidirectional=_bidirectional(spec.bidirectional or back.BidirectionalSpec()),
        maintenance_windows=tuple(_window(one) for one in spec.maintenance_windows or ()),
    )


def policies_for(
    common: intent.GatewayPolicies, pod: PodSettings, *, alone: bool
) -> tuple[intent.GatewayPolicies, tuple[Notice, ...]]:
    """Return the policies of one gateway, whose own annotations take precedence."""
    access, ignition = common.access, common.ignition
    # A pair consists of two gateways, so with several gateways one role cannot apply to all of them.
    inherits_role = alone or ignition.redundancy_role is intent.RedundancyRole.STANDALONE
    role = ignition.redundancy_role if inherits_role else intent.RedundancyRole.STANDALONE
    peer = ignition.peer_gateway if inherits_role else ""
    policies = replace(
        common,
        access=replace(
            access,
            port=value_or_default(pod.gateway_port, access.port),
            tls=value_or_default(pod.gateway_tls, access.tls),
        ),
        ignition=replace(
            ignition,
            redundancy_role=value_or_default(pod.redundancy_role, role),
            peer_gateway=pod.peer_gateway or peer,
            tag_provider=pod.tag_provider or ignition.tag_provider,
            tag_inheritance=value_or_default(pod.tag_inheritance, ignition.tag_inheritance),
        ),
    )
    if inherits_role or pod.redundancy_role is not None:
        return policies, ()
    message = (
        f"ignition.redundancyRole is ignored for gateway {pod.gateway}, because the resource has several "
        f"gateways; set annotation {PREFIX}{PodAnnotationKey.REDUNDANCY_ROLE} on the pod"
    )
    return policies, (Notice(Reason.FIELD_IGNORED, message),)


def deletion_of(spec: InheritableSpec) -> DeletionPolicy:
    default, budget = DeletionPolicy(), spec.deletion_budget or blocks.DeletionBudgetSpec()
    return DeletionPolicy(
        orphans=parse_choice(spec.orphans, default.orphans),
        budget_files=value_or_default(budget.files, default.budget_files),
        budget_percent=value_or_default(budget.percent, default.budget_percent),
    )


def access_notices(access: intent.GatewayAccessPolicy) -> Iterator[Notice]:
    if access.port == TLS_PORT and not access.tls:
        yield Notice(
            Reason.PORT_WITHOUT_TLS,
            f"gateway.port is {TLS_PORT}, the TLS port of gateways, but gateway.tls is false",
        )


def _access(gateway: GatewaySpec | None) -> intent.GatewayAccessPolicy:
    """Return the access policy; without the block no request is sent, as with `filesOnly`."""
    default = intent.GatewayAccessPolicy()
    if gateway is None:
        return replace(default, files_only=True)
    return intent.GatewayAccessPolicy(
        port=value_or_default(gateway.port, default.port),
        tls=value_or_default(gateway.tls, default.tls),
        api_key=secret_key(gateway.api_key_secret_ref),
        api_key_header=value_or_default(gateway.api_key_header, default.api_key_header),
        ca=secret_key(gateway.ca_secret_ref),
        insecure_skip_verify=value_or_default(gateway.insecure_skip_verify, default.insecure_skip_verify),
        scan_order=parse_choice(gateway.scan_order, default.scan_order),
        files_only=value_or_default(gateway.files_only, default.files_only),
    )


def _ignition(block: IgnitionSpec) -> intent.IgnitionPolicy:
    default = intent.IgnitionPolicy()
    return intent.IgnitionPolicy(
        designer_sessions=parse_choice(block.designer_session_policy, default.designer_sessions),
        designer_timeout=parse_seconds(block.designer_session_timeout, default.designer_timeout),
        perspective_sessions=parse_choice(block.perspective_session_policy, default.perspective_sessions),
        redundancy_role=parse_choice(block.redundancy_role, default.redundancy_role),
        peer_gateway=value_or_default(block.peer_gateway_name, default.peer_gateway),
        binaries=parse_choice(block.binary_policy, default.binaries),
    )


def _validation(block: blocks.ValidationSpec) -> intent.ValidationPolicy:
    default, webhook = intent.ValidationPolicy(), block.webhook or blocks.ValidationWebhookSpec()
    return intent.ValidationPolicy(
        dry_run_before=value_or_default(block.dry_run_before, default.dry_run_before),
        webhook_url=value_or_default(webhook.url, default.webhook_url),
        webhook_timeout=parse_seconds(webhook.timeout, default.webhook_timeout),
    )


def _drift(block: blocks.DriftSpec) -> intent.DriftPolicy:
    default = intent.DriftPolicy()
    return intent.DriftPolicy(
        mode=parse_choice(block.mode, default.mode),
        interval=parse_seconds(block.interval, default.interval),
        ignore=tuple(
            intent.DriftIgnorePolicy(one.path, one.json_pointer or "") for one in block.ignore or ()
        ),
    )


def _window(block: blocks.MaintenanceWindowSpec) -> intent.MaintenanceWindowPolicy:
    window = intent.MaintenanceWindowPolicy(
        cron=block.cron,
        duration=parse_duration(block.duration),
        time_zone=value_or_default(block.time_zone, "UTC"),
    )
    maintenance_windows.check_window(window)
    return window


def _bidirectional(block: back.BidirectionalSpec) -> intent.BidirectionalPolicy:
    default, guardrails = intent.BidirectionalPolicy(), block.guardrails or back.GuardrailSpec()
    return intent.BidirectionalPolicy(
        enabled=value_or_default(block.enabled, default.enabled),
        watch_paths=value_or_default(block.watch_paths, default.watch_paths),
        target_branch=value_or_default(block.target_branch, default.target_branch),
        debounce=parse_seconds(block.debounce, default.debounce),
        create_pr=value_or_default(block.create_pr, default.create_pr),
        pr_labels=value_or_default(block.pr_labels, default.pr_labels),
        conflicts=parse_choice(block.conflict_strategy, default.conflicts),
        max_file_bytes=parse_size(guardrails.max_file_size, default.max_file_bytes),
        max_files_per_pr=value_or_default(guardrails.max_files_per_pr, default.max_files_per_pr),
        excludes=value_or_default(guardrails.exclude_patterns, default.excludes),
        forge=_forge(block.forge) if block.forge else None,
    )


def _forge(block: back.ForgeSpec) -> intent.ForgePolicy:
    return intent.ForgePolicy(
        kind=intent.ForgeKind(block.type), url=block.url or "", token=secret_key(block.token_secret_ref)
    )
