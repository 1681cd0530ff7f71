"""Checks the operator: where it runs, whether a controller leads, its rights, and the emergency stop.

Its namespace is found by its Deployment or, without the right to read that, by its Leases. A Lease that looks
old is watched for its whole duration before its holder is reported as dead, because the clock that wrote its
time may be wrong.
"""

from __future__ import annotations

import msgspec

from stoker.cli.doctor.advice import INSTALL
from stoker.cli.doctor.checks import (
    DoctorChain,
    Examination,
    OperatorInstallation,
    failed_finding,
    passed_finding,
)
from stoker.cli.doctor.rbac import CONTROLLER, SHARED_VOLUMES, home_needs, missing_permissions
from stoker.controller.cache.informers import PAUSE_MAP
from stoker.controller.manager import LEASE_SECONDS
from stoker.controller.sharding.division import lease_name, shard_count, shard_index
from stoker.domain.clock import LONG_AGO, rfc3339_or
from stoker.domain.errors import InvalidValue
from stoker.domain.findings import Finding, FindingStatus
from stoker.domain.reasons import Reason
from stoker.domain.shards import MAX_SHARDS
from stoker.domain.text import first_names
from stoker.kube.client.errors import Forbidden, NotFound
from stoker.kube.client.resources import CONFIG_MAPS, DEPLOYMENTS, LEASES
from stoker.kube.leader.lease import Lease

FRESH_SECONDS = 60.0
"""A Lease that was renewed within this time has a live holder, even if the clocks differ."""
POLL_SECONDS = 1.0
PART = "app.kubernetes.io/part-of=stoker"
COMPONENT = "app.kubernetes.io/component"


class _OperatorMeta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}


class _OperatorContainer(msgspec.Struct, frozen=True):
    args: tuple[str, ...] | None = None


class _ConfigMapSource(msgspec.Struct, frozen=True):
    name: str = ""


class _OperatorVolume(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    config_map: _ConfigMapSource | None = None


class _OperatorPodSpec(msgspec.Struct, frozen=True, rename="camel"):
    containers: tuple[_OperatorContainer, ...] = ()
    volumes: tuple[_OperatorVolume, ...] | None = None
    service_account_name: str = "default"


class _OperatorPodTemplate(msgspec.Struct, frozen=True):
    spec: _OperatorPodSpec = _OperatorPodSpec()


class _OperatorDeploymentSpec(msgspec.Struct, frozen=True):
    template: _OperatorPodTemplate = _OperatorPodTemplate()


class _OperatorDeployment(msgspec.Struct, frozen=True):
    metadata: _OperatorMeta = _OperatorMeta()
    spec: _OperatorDeploymentSpec = _OperatorDeploymentSpec()


class _OperatorConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] | None = None


async def _check_installation(case: Examination) -> Finding:
    """Find the installation; later checks skip what is not known about it."""
    try:
        found = await _operators_by_deployment(case)
    except Forbidden:
        found = {}
    if not found:
        found = await _operators_by_lease(case)
    if len(found) == 1:
        case.operator = next(iter(found.values()))
        return passed_finding("operator", f"in namespace {case.operator.namespace}")
    if found:
        said = f"several operators were found, in the namespaces {first_names(sorted(found))}"
        fix = "Choose one with --operator-namespace NAMESPACE."
        return Finding("operator", FindingStatus.WRONG, said, fix, Reason.INVALID_VALUE, of_input=True)
    where = f"namespace {case.home}" if case.home else "this cluster"
    said = f"neither a Deployment nor a Lease of the controller is in {where}"
    fix = "Omit --operator-namespace to detect it, or install it" if case.home else "Install it"
    return failed_finding("operator", said, f"{fix}: {INSTALL}", Reason.CONTROLLER_SILENT)


async def _check_leader(case: Examination) -> Finding:
    home = _operator_of(case).namespace
    leases = {
        index: one
        for one in await case.client.list(LEASES, home, into=Lease)
        if (index := shard_index(one)) is not None
    }
    count = _operator_of(case).shards or max((shard_count(one) or 1 for one in leases.values()), default=1)
    for index in range(min(count, MAX_SHARDS)):
        why = await _leader_problem(case, home, index, leases.get(index))
        if why:
            name = f"Lease {home}/{lease_name(index)}"
            fix = (
                f"Find out why no controller is active: kubectl -n {home} get pods -l {COMPONENT}=controller"
            )
            return failed_finding("controller", f"{name} {why}", fix, Reason.CONTROLLER_SILENT)
    holders = [one.holder for index, one in sorted(leases.items()) if index < count]
    return passed_finding(
        "controller",
        f"{first_names(holders)} leads" if count == 1 else f"{count} shards: {first_names(holders)}",
    )


async def _leader_problem(case: Examination, home: str, index: int, lease: Lease | None) -> str:
    """Return why no controller can be working, or an empty string if one is."""
    if lease is None:
        return "is missing, so no replica leads"
    if not lease.holder:
        return "is held by no replica"
    age = (case.clock.now() - rfc3339_or(lease.spec.renew_time, LONG_AGO)).total_seconds()
    if abs(age) < FRESH_SECONDS:
        return ""
    stands = float(min(lease.spec.lease_duration_seconds or LEASE_SECONDS, 60))
    until = case.clock.monotonic() + stands
    while case.clock.monotonic() < until:
        await case.clock.sleep(POLL_SECONDS)
        try:
            seen = await case.client.get(LEASES, lease_name(index), home, into=Lease)
        except NotFound:
            return "is gone"
        if seen.version != lease.version:
            return "" if seen.holder else "is held by no replica"
    return (
        f"was last renewed by {lease.holder} at {lease.spec.renew_time or 'no time at all'}, and not renewed "
        "since"
    )


async def _check_controller_permissions(case: Examination) -> Finding:
    """Check the controller's rights in the namespaces that it watches, and in its own."""
    operator = _operator_of(case)
    if not operator.account:
        said = (
            "not checked: the controller's service account is named by its Deployment, which cannot be read"
        )
        return Finding("rights", FindingStatus.UNTRIED, said)
    wanted = (*CONTROLLER, *(SHARED_VOLUMES if operator.shared_volumes else ()))
    home, account = operator.namespace, operator.account
    if case.place.name and operator.works_on(case.place.namespace):
        places: tuple[str | None, ...] = (case.place.namespace,)
    else:
        places = operator.watched or (None,)
    for where in places:
        missing = await missing_permissions(case.client, home, account, wanted, where=where)
        if missing:
            place = f"namespace {where}" if where else "all namespaces"
            return _denied_finding(home, account, [str(one) for one in missing], place)
    missing = await missing_permissions(
        case.client, home, account, home_needs(operator.shards or 1), where=home
    )
    if missing:
        return _denied_finding(home, account, [str(one) for one in missing], f"namespace {home}")
    return passed_finding("rights", f"{account} has all permissions that the controller needs")


def _denied_finding(home: str, account: str, missing: list[str], where: str) -> Finding:
    said = f"the controller's account {home}/{account} may not {first_names(missing)} in {where}"
    return failed_finding("rights", said, f"Restore the chart's roles: {INSTALL}", Reason.RBAC_DENIED)


async def _check_pause(case: Examination) -> Finding:
    home = _operator_of(case).namespace
    try:
        found = await case.client.get(CONFIG_MAPS, PAUSE_MAP, home, into=_OperatorConfigMap)
    except NotFound:
        return passed_finding("pause", "the emergency stop is off")
    if (found.data or {}).get("paused", "").strip() != "true":
        return passed_finding("pause", "the emergency stop is off")
    said = f"ConfigMap {home}/{PAUSE_MAP} pauses everything: the emergency stop is on"
    return Finding(
        "pause", FindingStatus.NOTE, said, f"stoker resume --namespace {home} --everything", Reason.PAUSED
    )


FINDING: DoctorChain = (("operator", _check_installation),)
OPERATOR: DoctorChain = (
    ("controller", _check_leader),
    ("rights", _check_controller_permissions),
    ("pause", _check_pause),
)


async def _operators_by_deployment(case: Examination) -> dict[str, OperatorInstallation]:
    found: dict[str, OperatorInstallation] = {}
    listed = await case.client.list(DEPLOYMENTS, case.home or None, into=_OperatorDeployment, labels=PART)
    admitting = {one.metadata.namespace for one in listed if one.metadata.labels.get(COMPONENT) == "webhook"}
    for one in listed:
        pod, home = one.spec.template.spec, one.metadata.namespace
        if one.metadata.labels.get(COMPONENT) != "controller" or not pod.containers:
            continue
        flags = dict(word.partition("=")[::2] for word in pod.containers[0].args or ())
        volume = next((it for it in pod.volumes or () if it.name == "defaults" and it.config_map), None)
        found[home] = OperatorInstallation(
            namespace=home,
            account=pod.service_account_name,
            watched=tuple(filter(None, flags.get("--watch-namespaces", "").split(","))),
            labels=flags.get("--watch-label-selector", ""),
            shards=found[home].shards + 1 if home in found else 1,
            shared_volumes="--shared-volumes" in flags,
            require_known_hosts="--require-known-hosts" in flags,
            defaults=volume.config_map.name if volume is not None and volume.config_map is not None else "",
            admission=home in admitting,
        )
    return found


async def _operators_by_lease(case: Examination) -> dict[str, OperatorInstallation]:
    listed = await case.client.list(LEASES, case.home or None, into=Lease)
    homes = {one.metadata.namespace for one in listed if shard_index(one) is not None}
    return {home: OperatorInstallation(home) for home in homes}


def _operator_of(case: Examination) -> OperatorInstallation:
    if case.operator is None:
        raise InvalidValue("no operator was found")
    return case.operator
