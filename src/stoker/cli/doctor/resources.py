"""Checks one resource: that it exists, that the controller reconciles it, and that its spec is valid.

It is read as the controller reads it: with its base, and with the installation's defaults if the user may
read those.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stoker.api.kinds.ignitionsync import IgnitionSync, IgnitionSyncBase, IgnitionSyncBaseSpec
from stoker.api.kinds.resource import CustomResource as Model
from stoker.api.kinds.stoker import Stoker
from stoker.api.manifests.yaml import load_documents
from stoker.api.spec.status import SyncStatus
from stoker.api.to_intent import NO_DEFAULTS, base_ref, intent_for, merge_spec
from stoker.api.to_intent.inheritance import installation_defaults
from stoker.cli.doctor.checks import (
    DoctorChain,
    Examination,
    ExaminedResource,
    failed_finding,
    passed_finding,
)
from stoker.controller.cache.objects import BASES, SYNCED_KINDS, ResourceKey, decode_object, decode_resource
from stoker.domain.errors import InvalidValue
from stoker.domain.findings import Finding, FindingStatus
from stoker.domain.reasons import Reason
from stoker.domain.text import first_names
from stoker.fleet.resource_name import KINDS
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import Forbidden, NotFound
from stoker.kube.client.kinds import rest_resource
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import CONFIG_MAPS
from stoker.kube.watch.store import ObjectKey


class _ResourceConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] | None = None


async def _check_resource(case: Examination) -> Finding:
    place = case.place
    found: dict[str, bytes] = {}
    missing: NotFound | None = None
    for kind in (place.kind,) if place.kind is not None else KINDS:
        try:
            raw = await case.client.get(
                rest_resource(SYNCED_KINDS[kind]), place.name, place.namespace, into=msgspec.Raw
            )
        except NotFound as error:
            missing = missing or error
        else:
            found[kind] = bytes(raw)
    if not found:
        said = missing.message if missing is not None else f"{place.namespace}/{place.name} does not exist"
        fix = f"kubectl get stokers,ignitionsyncs -n {place.namespace} lists the existing ones."
        return Finding("resource", FindingStatus.WRONG, said, fix, Reason.NOT_FOUND, of_input=True)
    if len(found) > 1:
        said = f"{place.namespace}/{place.name} is a Stoker and an IgnitionSync"
        return Finding(
            "resource", FindingStatus.WRONG, said, "Say --kind.", Reason.INVALID_VALUE, of_input=True
        )
    [(kind, raw_object)] = found.items()
    case.subject = await _load_subject(case, kind, raw_object)
    if case.operator is not None and not case.operator.works_on(place.namespace):
        said = f"the controller does not watch namespace {place.namespace}"
        fix = (
            "Add it to controller.watchNamespaces of the chart; currently it has "
            f"{first_names(case.operator.watched)}."
        )
        return failed_finding("resource", said, fix, Reason.NAMESPACE_NOT_ALLOWED)
    if case.operator is not None and not await _is_selected(case, case.operator.labels, case.subject.key):
        said = f"the controller watches only resources with the labels {case.operator.labels}"
        fix = "Add these labels, or change controller.watchLabelSelector of the chart."
        return failed_finding("resource", said, fix, Reason.CONTROLLER_SILENT)
    if case.subject.intent.paused:
        fix = f"stoker resume {place.name} --namespace {place.namespace}"
        return Finding("resource", FindingStatus.NOTE, f"{case.subject.key} is paused", fix, Reason.PAUSED)
    return passed_finding("resource", f"{case.subject.key} is understood")


async def _is_selected(case: Examination, labels: str, key: ResourceKey) -> bool:
    """Let the API server evaluate the selector, if the user may list the kind."""
    if not labels:
        return True
    named = f"metadata.name={key.object.name}"
    kind = rest_resource(SYNCED_KINDS[key.kind])
    try:
        return bool(
            await case.client.list(kind, key.object.namespace, into=ObjectHeader, labels=labels, fields=named)
        )
    except Forbidden:
        return True


async def _load_subject(case: Examination, kind: str, raw: bytes) -> ExaminedResource:
    kept = decode_object(raw)
    model = decode_resource(kept, SYNCED_KINDS[kind].model)
    settled = merge_spec(
        model, base=await _read_base(case.client, model), defaults=await _read_defaults(case)
    )
    metadata = kept.header.metadata
    key = ResourceKey(kind, ObjectKey(metadata.namespace, metadata.name))
    status = model.status if isinstance(model, Stoker | IgnitionSync) else None
    return ExaminedResource(key, status or SyncStatus(), metadata.generation, intent_for(settled))


async def _read_base(client: KubeClient, model: Model) -> IgnitionSyncBase | None:
    wanted = base_ref(model)
    if wanted is None:
        return None
    try:
        return await client.get(rest_resource(BASES), wanted.name, wanted.namespace, into=IgnitionSyncBase)
    except NotFound:
        return None  # resolving the spec reports the missing base


async def _read_defaults(case: Examination) -> IgnitionSyncBaseSpec:
    """The installation's defaults for resources, if the user may read them."""
    operator = case.operator
    if operator is None or not operator.defaults:
        return NO_DEFAULTS
    try:
        found = await case.client.get(
            CONFIG_MAPS, operator.defaults, operator.namespace, into=_ResourceConfigMap
        )
    except (Forbidden, NotFound):
        return NO_DEFAULTS
    documents = list(load_documents((found.data or {}).get("defaults.yaml", "").encode()))
    return (
        installation_defaults(documents[0]) if documents and isinstance(documents[0], dict) else NO_DEFAULTS
    )


RESOURCE: DoctorChain = (("resource", _check_resource),)


def parse_reason(text: str) -> Reason:
    known: Mapping[str, Reason] = {one.value: one for one in Reason}
    return known.get(text, Reason.STALLED)


def subject_of(case: Examination) -> ExaminedResource:
    if case.subject is None:
        raise InvalidValue("no resource was found")
    return case.subject
