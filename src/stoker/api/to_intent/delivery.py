"""The blocks about how a commit reaches the fleet, as the controller's part of the intent."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.api.spec import delivery as blocks
from stoker.api.spec import gateway, policies, triggers
from stoker.api.to_intent.values import (
    parse_amount,
    parse_choice,
    parse_seconds,
    parse_size,
    secret_key,
    value_or_default,
)
from stoker.domain.cycles import refuse_cycle
from stoker.domain.errors import InvalidValue
from stoker.domain.intent import delivery as intent
from stoker.domain.intent.policies import RollbackTarget
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId


def polling_of(block: triggers.PollingSpec | None) -> intent.PollingPolicy:
    default, block = intent.PollingPolicy(), block or triggers.PollingSpec()
    return intent.PollingPolicy(
        enabled=value_or_default(block.enabled, default.enabled),
        interval=parse_seconds(block.interval, default.interval),
    )


def receiver_of(block: triggers.WebhookSpec | None) -> intent.ReceiverPolicy:
    default, block = intent.ReceiverPolicy(), block or triggers.WebhookSpec()
    return intent.ReceiverPolicy(
        enabled=value_or_default(block.enabled, default.enabled),
        port=value_or_default(block.port, default.port),
        hmac_key=secret_key(block.secret_ref),
        bearer=secret_key(block.bearer_secret_ref),
        allowed_refs=value_or_default(block.allowed_refs, default.allowed_refs),
        allowed_namespaces=value_or_default(block.allowed_namespaces, default.allowed_namespaces),
    )


def shared_volume_of(block: triggers.SharedStorageSpec) -> intent.SharedVolumePolicy:
    default = intent.SharedVolumePolicy()
    return intent.SharedVolumePolicy(
        storage_class=value_or_default(block.storage_class_name, default.storage_class),
        size_bytes=parse_size(block.size, default.size_bytes),
        access_mode=parse_choice(block.access_mode, default.access_mode),
    )


def deployment_of(block: blocks.DeploymentSpec | None) -> intent.DeploymentPolicy:
    block = block or blocks.DeploymentSpec()
    order = tuple(
        intent.GatewayOrderPolicy(one.name, value_or_default(one.weight, 0), one.depends_on or ())
        for one in block.sync_order or ()
    )
    waits_for = dependency_graph(order, weighed=not block.stages)
    for entry in order:
        refuse_cycle(entry.gateway, waits_for, what="gateway")
    return intent.DeploymentPolicy(
        strategy=parse_choice(block.strategy, intent.RolloutStrategy.ALL_AT_ONCE),
        stages=tuple(_stage(stage) for stage in block.stages or ()),
        order=order,
        auto_rollback=_auto_rollback(block.auto_rollback),
    )


def dependency_graph(
    order: Sequence[intent.GatewayOrderPolicy], *, weighed: bool
) -> dict[str, tuple[str, ...]]:
    """Return which gateway waits for which, as far as the spec decides; with stages, without weights."""
    weights = {name: 0 for one in order for name in one.depends_on}
    weights |= {one.gateway: one.weight for one in order}
    before = {one.gateway: one.depends_on for one in order}
    graph: dict[str, tuple[str, ...]] = {}
    for name, weight in weights.items():
        heavier = min((each for each in weights.values() if each > weight), default=None) if weighed else None
        tier = () if heavier is None else (f"weight {heavier}",)
        graph[name] = (*before.get(name, ()), *tier)
    for weight in set(weights.values()):
        graph[f"weight {weight}"] = tuple(name for name, each in weights.items() if each == weight)
    return graph


def _stage(block: blocks.DeploymentStageSpec) -> intent.StagePolicy:
    return intent.StagePolicy(
        name=block.name,
        gateways=block.gateways,
        wait_after=parse_seconds(block.post_sync_wait, 0.0),
        # Some manifests write the method before the address.
        health_check_url=(block.health_check_url or "").removeprefix("GET "),
        require_approval=value_or_default(block.require_approval, False),
    )


def _auto_rollback(block: blocks.AutoRollbackSpec | None) -> tuple[intent.RollbackTrigger, ...]:
    if block is None or not block.enabled:
        return ()
    return tuple(intent.RollbackTrigger(trigger) for trigger in block.triggers or ("scanFailure",))


def rate_limit_of(block: policies.RateLimitSpec | None) -> intent.RateLimitPolicy | None:
    if block is None:
        return None
    return intent.RateLimitPolicy(block.max_concurrent_syncs, block.max_syncs_per_minute, block.burst_limit)


def approval_of(block: policies.ApprovalSpec | None) -> intent.ApprovalPolicy:
    default, block = intent.ApprovalPolicy(), block or policies.ApprovalSpec()
    return intent.ApprovalPolicy(
        required=value_or_default(block.required, default.required),
        timeout=parse_seconds(block.timeout, default.timeout),
        teams=value_or_default(block.teams, default.teams),
        webhook_url=(block.webhook and block.webhook.url) or "",
    )


def rollback_of(block: blocks.RollbackSpec | None) -> RollbackTarget:
    block = block or blocks.RollbackSpec()
    return RollbackTarget(
        to_snapshot=block.to_snapshot or "", to_commit=CommitId(block.to_commit) if block.to_commit else None
    )


def agent_of(block: gateway.AgentContainerSpec | None) -> intent.AgentPodPolicy:
    default, block = intent.AgentPodPolicy(), block or gateway.AgentContainerSpec()
    image, resources = (
        block.image or gateway.AgentImageSpec(),
        block.resources or gateway.ContainerResources(),
    )
    requests = _resource_amounts(resources.requests, default.requests)
    limits = _resource_amounts(resources.limits, default.limits)
    _refuse_requests_above_limits(requests, dict(limits))
    return intent.AgentPodPolicy(
        image=intent.ImagePolicy(
            repository=value_or_default(image.repository, default.image.repository),
            tag=value_or_default(image.tag, default.image.tag),
            digest=value_or_default(image.digest, default.image.digest),
            pull_policy=value_or_default(image.pull_policy, default.image.pull_policy),
        ),
        requests=requests,
        limits=limits,
        sidecar_mode=parse_choice(block.sidecar_mode, default.sidecar_mode),
        startup_budget=parse_seconds(block.startup_budget, default.startup_budget),
    )


def _refuse_requests_above_limits(requests: tuple[tuple[str, str], ...], limits: dict[str, str]) -> None:
    """Refuse requests above limits: the cluster would refuse the pod. Default limits count as well."""
    for name, asked in requests:
        allowed = limits.get(name)
        if allowed is not None and parse_amount(asked) > parse_amount(allowed):
            raise InvalidValue(
                f"agent.resources.requests.{name} is {asked}, more than agent.resources.limits.{name}, "
                f"which is {allowed}",
                reason=Reason.INVALID_SPEC,
            )


def _resource_amounts(
    given: dict[str, int | str] | None, default: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    return default if given is None else tuple(sorted((name, str(amount)) for name, amount in given.items()))
