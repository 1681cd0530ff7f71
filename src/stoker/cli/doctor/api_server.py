"""Checks the API server: connection, version, our CRDs and their conversion.

This is the first chain for a cluster; if it finds something wrong, no other chain runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, cast

import msgspec

from stoker.api.codegen.crd import schema_for
from stoker.api.registry import KINDS, CustomResourceKind
from stoker.cli.doctor.advice import INSTALL
from stoker.cli.doctor.checks import (
    DoctorChain,
    Examination,
    RegisteredWebhook,
    WebhookClientConfig,
    error_finding,
    failed_finding,
    passed_finding,
)
from stoker.domain.errors import Misconfigured
from stoker.domain.findings import Finding, FindingStatus
from stoker.domain.reasons import Reason
from stoker.domain.text import first_names
from stoker.kube.client import codec
from stoker.kube.client.errors import NotFound
from stoker.kube.client.resources import CRDS

OLDEST = (1, 30)
"""The oldest minor version whose API has all that admission needs; the chart requires the same."""
_APPLY = f"Install the kinds of this version: {INSTALL}"


class _ServerVersion(msgspec.Struct, frozen=True, rename="camel"):
    major: str = ""
    minor: str = ""
    git_version: str = ""


class _ServedKind(msgspec.Struct, frozen=True):
    name: str = ""


class _ServedGroup(msgspec.Struct, frozen=True):
    """The kinds of an API group, from discovery."""

    resources: tuple[_ServedKind, ...] = ()


class _ConversionWebhook(msgspec.Struct, frozen=True, rename="camel"):
    client_config: WebhookClientConfig = WebhookClientConfig()


class _CrdConversion(msgspec.Struct, frozen=True):
    strategy: str = "None"
    webhook: _ConversionWebhook | None = None


class _CrdVersion(msgspec.Struct, frozen=True):
    name: str = ""
    served: bool = False
    schema: dict[str, Any] = {}


class _CrdSpec(msgspec.Struct, frozen=True):
    versions: tuple[_CrdVersion, ...] = ()
    conversion: _CrdConversion = _CrdConversion()


class _CrdDefinition(msgspec.Struct, frozen=True):
    """A CRD as the API server returns it."""

    spec: _CrdSpec = _CrdSpec()


class SchemaDifference(NamedTuple):
    """How a schema of the API server differs from ours."""

    lacking: tuple[str, ...]
    """Fields that the API server does not know and would drop silently."""
    unknown: tuple[str, ...]
    """Fields that this command does not know."""


async def _check_api_server(case: Examination) -> Finding:
    server = case.client.config.server
    said = await _server_version(case)
    return passed_finding(
        "api server", f"{server} answers, Kubernetes {said.git_version or 'of unknown version'}"
    )


async def _check_version(case: Examination) -> Finding:
    said = await _server_version(case)
    numbers = [re.match(r"[0-9]+", one) for one in (said.major, said.minor)]
    if not all(numbers):
        return Finding(
            "version", FindingStatus.UNTRIED, f"{said.git_version or 'nothing'} is not a Kubernetes version"
        )
    have = tuple(int(one[0]) for one in numbers if one is not None)
    if have < OLDEST:
        needed = ".".join(map(str, OLDEST))
        return failed_finding(
            "version",
            f"the API server is Kubernetes {said.git_version}, and {needed} is the oldest that is supported",
            f"Upgrade the cluster to Kubernetes {needed} or later.",
            Reason.VERSION_NOT_SUPPORTED,
        )
    return passed_finding("version", f"{said.git_version} is supported")


async def _check_kinds(case: Examination) -> Finding:
    """Check by discovery, which every authenticated user may read."""
    served: set[str] = set()
    for group in dict.fromkeys(kind.group for kind in KINDS):
        version = next(kind.version for kind in KINDS if kind.group == group)
        try:
            answer = await case.client.raw("GET", f"/apis/{group}/{version}")
        except NotFound:
            continue
        found = codec.decode(answer.body, _ServedGroup, f"get /apis/{group}/{version}")
        served |= {f"{one.name}.{group}" for one in found.resources}
    missing = [_crd_name(kind) for kind in KINDS if _crd_name(kind) not in served]
    if missing:
        said = f"the API server does not serve {first_names(missing)}"
        return failed_finding("kinds", said, _APPLY, Reason.NOT_FOUND)
    return passed_finding("kinds", f"all {len(KINDS)} kinds are served")


async def _check_schemas(case: Examination) -> Finding:
    newer: list[str] = []
    for kind in KINDS:
        found = await _definition(case, kind)
        served = next((one for one in found.spec.versions if one.name == kind.version and one.served), None)
        if served is None:
            said = f"{_crd_name(kind)} does not serve version {kind.version}"
            return failed_finding("schemas", said, _APPLY, Reason.VERSION_NOT_SUPPORTED)
        differs = schema_difference(schema_for(kind), served.schema.get("openAPIV3Schema", {}))
        if differs.lacking:
            said = f"{_crd_name(kind)} is of another version: it lacks {first_names(differs.lacking)}"
            return failed_finding("schemas", said, _APPLY, Reason.VERSION_NOT_SUPPORTED)
        newer += [f"{_crd_name(kind)} ({first_names(differs.unknown)})"] if differs.unknown else []
    if newer:
        said = f"fields that this command does not know: {first_names(newer)}"
        return Finding("schemas", FindingStatus.NOTE, said, "The cluster is newer: upgrade this command.")
    return passed_finding("schemas", "every kind matches this version of stoker")


async def _check_conversion(case: Examination) -> Finding:
    """Check conversion webhooks; with one version nothing is converted, but a named webhook must be right."""
    called: list[str] = []
    for kind in KINDS:
        conversion = (await _definition(case, kind)).spec.conversion
        if conversion.strategy != "Webhook":
            continue
        config = conversion.webhook.client_config if conversion.webhook is not None else WebhookClientConfig()
        if config.service is None and not config.url:
            said = f"{_crd_name(kind)} uses webhook conversion but names no webhook"
            return failed_finding("conversion", said, _APPLY, Reason.MISCONFIGURED)
        called.append(_crd_name(kind))
        case.webhooks.append(RegisteredWebhook(f"CustomResourceDefinition {_crd_name(kind)}", config))
    if not called:
        return passed_finding("conversion", "there is one version of each kind, so no conversion is needed")
    if len(called) < len(KINDS):
        others = [_crd_name(kind) for kind in KINDS if _crd_name(kind) not in called]
        said = f"{len(called)} kinds convert by the webhook, and not {first_names(others)}"
        return Finding("conversion", FindingStatus.NOTE, said, _APPLY)
    return passed_finding("conversion", "every kind converts by the webhook")


API_SERVER_CHECKS: DoctorChain = (
    ("api server", _check_api_server),
    ("version", _check_version),
    ("kinds", _check_kinds),
    ("schemas", _check_schemas),
    ("conversion", _check_conversion),
)


def unreachable_finding(error: Misconfigured) -> Finding:
    """Finding for a missing or wrong kubeconfig."""
    return replace(error_finding("api server", error), of_input=True)


def schema_difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> SchemaDifference:
    """Return the fields that only one of two schemas has; other differences do not count. Pure."""
    mine, other = set(_fields(ours)), set(_fields(theirs))
    # If one side lacks a whole block, only the block is named.
    return SchemaDifference(_topmost_paths(mine - other), _topmost_paths(other - mine))


def _fields(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for name, one in (schema.get("properties") or {}).items():
        if not path and name in ("apiVersion", "kind", "metadata"):
            continue
        below = f"{path}.{name}" if path else name
        yield below
        yield from _fields(one, below)
    for inside in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inside, Mapping):
            yield from _fields(inside, f"{path}[]")


def _topmost_paths(paths: set[str]) -> tuple[str, ...]:
    return tuple(sorted(one for one in paths if one.rpartition(".")[0].removesuffix("[]") not in paths))


async def _definition(case: Examination, kind: CustomResourceKind) -> _CrdDefinition:
    name = _crd_name(kind)
    if name not in case.definitions:
        case.definitions[name] = await case.client.get(CRDS, name, into=_CrdDefinition)
    return cast("_CrdDefinition", case.definitions[name])


async def _server_version(case: Examination) -> _ServerVersion:
    answer = await case.client.raw("GET", "/version")
    case.ahead = _clock_skew(case, answer.headers.get("Date", ""))
    return codec.decode(answer.body, _ServerVersion, "get /version")


def _clock_skew(case: Examination, date: str) -> timedelta:
    """How far the API server's clock is ahead of the local one; zero if its response has no valid date."""
    try:
        said = parsedate_to_datetime(date)
    except ValueError:
        return timedelta()
    return said - case.clock.now() if said.tzinfo is not None else timedelta()


def _crd_name(kind: CustomResourceKind) -> str:
    return f"{kind.plural}.{kind.group}"
