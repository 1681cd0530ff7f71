"""Checks the gateways of one resource: that they exist, and that their agents run, report and reach them.

The state of a gateway's API is read from its agent's report: only the agent reaches that port, and the doctor
does not need access to it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stoker.agent.status.status_report import HEARTBEAT
from stoker.cli.doctor.advice import advice_for, gateway_advice, troubleshooting_hint
from stoker.cli.doctor.checks import (
    DoctorChain,
    Examination,
    ExaminedResource,
    failed_finding,
    passed_finding,
)
from stoker.cli.doctor.rbac import RequiredPermission, missing_permissions
from stoker.cli.doctor.resources import parse_reason, subject_of
from stoker.controller.cache.gateways import FleetGateway, fleet_of
from stoker.controller.cache.objects import SYNCED_KINDS
from stoker.controller.cache.pods import UNNAMED_RESOURCE, AgentState, CachedPod, decode_pod
from stoker.controller.cache.reports import parse_report
from stoker.controller.owned.rbac import role_name
from stoker.domain.clock import LONG_AGO, rfc3339_or
from stoker.domain.findings import Finding, FindingStatus
from stoker.domain.protocol import CR_NAME_LABEL, GatewayReport, SyncState, metadata_map_name, status_map_name
from stoker.domain.reasons import ConditionType, Reason
from stoker.domain.text import first_names
from stoker.kube.client.kinds import rest_resource
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import CONFIG_MAPS, PODS
from stoker.kube.runtime import conditions

STALE_SECONDS = 2 * HEARTBEAT + 60.0


class _StatusMapMeta(msgspec.Struct, frozen=True):
    name: str = ""


class _StatusMap(msgspec.Struct, frozen=True):
    metadata: _StatusMapMeta = _StatusMapMeta()
    data: dict[str, str] | None = None


async def _check_gateways(case: Examination) -> Finding:
    subject = subject_of(case)
    pods = await _resource_pods(case, subject)
    subject.fleet = fleet_of(pods, await _agent_reports(case, subject))
    found = subject.fleet.gateways
    if not found:
        said = f"no pod of namespace {subject.key.object.namespace} belongs to {subject.key}"
        fix = (
            'Annotate the template of the gateway\'s pods: stoker.io/inject: "true" and '
            f"stoker.io/cr-name: {subject.key.object.name}."
        )
        return failed_finding("gateways", said, fix, Reason.NO_GATEWAYS)
    for one in found:
        if one.mistake:
            said = f"the annotations of pod {one.pod.name}: {one.mistake}"
            return failed_finding(
                "gateways", said, "Correct them in the pod's template.", Reason.INVALID_VALUE
            )
    return passed_finding("gateways", f"{len(found)}: {first_names([one.name for one in found])}")


async def _check_injection(case: Examination) -> Finding:
    subject = subject_of(case)
    missing = [one.pod.name for one in subject.fleet.without_agent]
    namespace = subject.key.object.namespace
    if missing:
        said = f"no agent is in pod {first_names(missing)}: it was created while no webhook injected agents"
        return failed_finding(
            "agent", said, f"kubectl -n {namespace} delete pod {missing[0]}", Reason.SIDECAR_MISSING
        )
    lost = [one.pod.name for one in subject.fleet.gateways if one.pod.agent is AgentState.LOST]
    if lost:
        said = f"the agent of pod {first_names(lost)} has no current heartbeat"
        fix = f"kubectl -n {namespace} logs {lost[0]} -c stoker-agent"
        return failed_finding("agent", said, f"See why: {fix}", Reason.AGENT_UNREACHABLE)
    starting = [one.pod.name for one in subject.fleet.gateways if one.pod.agent is AgentState.STARTING]
    if starting:
        said = f"the agent of pod {first_names(starting)} is starting"
        return Finding("agent", FindingStatus.NOTE, said, "Wait for a minute and run this again.")
    return passed_finding("agent", "every pod has an agent, and all are ready")


async def _check_agent_permissions(case: Examination) -> Finding:
    """Check the rights that the controller's Role grants to the service accounts of the pods."""
    subject = subject_of(case)
    namespace, name = subject.key.object
    wanted = (
        *(
            RequiredPermission(verb, "", "configmaps", metadata_map_name(subject.key.door, name))
            for verb in ("get", "watch")
        ),
        RequiredPermission("patch", "", "configmaps", status_map_name(subject.key.door, name)),
    )
    for account in subject.fleet.accounts:
        missing = await missing_permissions(case.client, namespace, account, wanted, where=namespace)
        if missing:
            denied = first_names([str(one) for one in missing])
            said = f"service account {account}, which agents run under, may not {denied}"
            fix = (
                f"The controller makes Role and RoleBinding {role_name(subject.key)} itself: it must run, "
                "and nothing may remove them."
            )
            return failed_finding("agent role", said, fix, Reason.RBAC_DENIED)
    return passed_finding(
        "agent role", f"{first_names(list(subject.fleet.accounts))} have the permissions that agents need"
    )


async def _check_reports(case: Examination) -> Finding:
    subject = subject_of(case)
    now = case.now()
    for one in subject.fleet.gateways:
        logs = f"kubectl -n {one.pod.namespace} logs {one.pod.name} -c stoker-agent"
        if one.report is None:
            said = f"gateway {one.name} has not reported yet"
            return failed_finding(
                "reports", said, f"Check the log of its agent: {logs}", Reason.AGENT_UNREACHABLE
            )
        age = (now - rfc3339_or(one.report.heartbeat_at, LONG_AGO)).total_seconds()
        if one.report.heartbeat_at and age > STALE_SECONDS:
            said = f"gateway {one.name} reported last at {one.report.heartbeat_at}"
            return failed_finding(
                "reports", said, f"Check the log of its agent: {logs}", Reason.AGENT_UNREACHABLE
            )
    return passed_finding("reports", f"{len(subject.fleet.gateways)} gateways have reported")


async def _check_gateway_api(case: Examination) -> Finding:
    """Check what agents report about their gateways' API; each part of the setup has its own reason."""
    subject = subject_of(case)
    noted: list[str] = []
    for one in subject.fleet.gateways:
        report = one.report
        if report is None:
            continue
        if report.sync_status is SyncState.ERROR:
            return _failed_report_finding(subject, one, report)
        if report.applied is False or report.verified is False:
            what = report.scan_result or "loading of the written files was not confirmed"
            said = f"gateway {one.name} did not confirm the last sync: {what}"
            return failed_finding(
                "gateway", said, "Read logs/wrapper.log of the gateway.", Reason.NOT_VERIFIED
            )
        if report.reason:
            noted.append(f"{one.name} ({report.reason}: {report.error_message or report.sync_status})")
    if noted:
        return Finding("gateway", FindingStatus.NOTE, f"waiting: {first_names(noted)}")
    return passed_finding("gateway", "no agent reports trouble with its gateway")


def _failed_report_finding(
    subject: ExaminedResource, gateway: FleetGateway, report: GatewayReport
) -> Finding:
    reason = parse_reason(report.reason)
    access = subject.intent.policies.access
    where = (
        f"key {access.api_key.key!r} of Secret {access.api_key.name!r}" if access.api_key else "the API key"
    )
    said = f"gateway {gateway.name}: {report.error_message or 'its agent gives no reason'}"
    fix = gateway_advice(reason, report.error_message, key=where, tls=access.tls)
    return failed_finding("gateway", said, fix or troubleshooting_hint(reason), reason)


async def _check_ready(case: Examination) -> Finding:
    """Check the Ready condition; last, because all earlier checks are more specific."""
    subject = subject_of(case)
    found = conditions.find_condition(subject.status.conditions or (), ConditionType.READY)
    if found is None:
        said = f"the controller has not reconciled {subject.key} yet"
        return failed_finding("ready", said, "Check the controller's log.", Reason.CONTROLLER_SILENT)
    if (subject.status.observed_generation or 0) < subject.generation:
        said = "the controller has not reconciled the last change of the resource yet"
        return Finding("ready", FindingStatus.NOTE, said, "Run this again in a moment.")
    reason = parse_reason(found.reason)
    if found.status == "True":
        return passed_finding("ready", found.message or found.reason)
    if found.status == "Unknown" or reason in (Reason.PAUSED, Reason.RECONCILING):
        return Finding("ready", FindingStatus.NOTE, found.message or found.reason, "", reason)
    return failed_finding("ready", found.message, advice_for(reason) or troubleshooting_hint(reason), reason)


GATEWAYS: DoctorChain = (
    ("gateways", _check_gateways),
    ("agent", _check_injection),
    ("agent role", _check_agent_permissions),
    ("reports", _check_reports),
    ("gateway", _check_gateway_api),
)
VERDICT: DoctorChain = (("ready", _check_ready),)


async def _resource_pods(case: Examination, subject: ExaminedResource) -> list[CachedPod]:
    """The pods that the controller counts as the resource's gateways."""
    namespace, name = subject.key.object
    found: list[CachedPod] = []
    async for page in case.client.pages(PODS, namespace):
        found += [pod for raw in page.items if (pod := decode_pod(bytes(raw))) is not None]
    others = await _other_resources(case, subject)
    alone = not others
    namesake = any(other == name for _, other in others)
    return sorted(
        (
            pod
            for pod in found
            if (
                pod.resource == name
                and (pod.resource_kind == subject.key.kind or not (pod.resource_kind or namesake))
            )
            or (pod.resource == UNNAMED_RESOURCE and alone)
        ),
        key=lambda pod: pod.name,
    )


async def _other_resources(case: Examination, subject: ExaminedResource) -> set[tuple[str, str]]:
    namespace, name = subject.key.object
    found = {
        (kind, one.metadata.name)
        for kind, registered in SYNCED_KINDS.items()
        for one in await case.client.list(rest_resource(registered), namespace, into=ObjectHeader)
    }
    return found - {(subject.key.kind, name)}


async def _agent_reports(case: Examination, subject: ExaminedResource) -> Mapping[str, GatewayReport]:
    namespace, name = subject.key.object
    first = status_map_name(subject.key.door, name)
    more = status_map_name(subject.key.door, name, 1).removesuffix(f"1-{name}")
    found: dict[str, GatewayReport] = {}
    for one in await case.client.list(
        CONFIG_MAPS, namespace, into=_StatusMap, labels=f"{CR_NAME_LABEL}={name}"
    ):
        if one.metadata.name != first and not one.metadata.name.startswith(more):
            continue
        for key, text in (one.data or {}).items():
            report = parse_report(text)
            if report is not None and (key not in found or found[key].heartbeat_at < report.heartbeat_at):
                found[key] = report
    return found
