"""Checks that the API server reaches our admission webhook and trusts its certificate.

The checks look at the webhook configurations, the endpoints and the certificate. The last check is decisive:
a dry run creates a resource that names another user as its approver, so that the API server calls the
webhook. The webhook must refuse that, and its refusal proves that the API server reached it. If it is not
reached, the earlier checks show why.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from stoker.cli.doctor.advice import INSTALL
from stoker.cli.doctor.checks import (
    DoctorChain,
    Examination,
    RegisteredWebhook,
    WebhookClientConfig,
    WebhookService,
    failed_finding,
    passed_finding,
)
from stoker.cli.doctor.tls_handshake import CertificateUntrusted, HandshakeUnreachable, read_certificate
from stoker.domain.findings import Finding, FindingStatus
from stoker.domain.reasons import Reason
from stoker.domain.text import first_names
from stoker.http_server.tls.ca_bundle import MUTATING, VALIDATING
from stoker.kube.client.errors import ApiError, Forbidden, Invalid, NotFound, ServerError
from stoker.kube.client.resources import ApiResource

SLICES = ApiResource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", namespaced=True)
STOKERS = "/apis/stoker.io/v1alpha1/namespaces/{}/stokers"
OWN_WEBHOOK_DOMAINS = (".stoker.io", ".configbutler.ai")
EXPECTED_WEBHOOKS = {"/inject": "MutatingWebhookConfiguration", "/validate": "ValidatingWebhookConfiguration"}
MAX_ADDRESSES = 3
EXPIRY_WARNING_SHARE = 1 / 6
"""Certificates are renewed after two thirds of their life; with less than this share left it is overdue."""
_FORGED_USER = "nobody:stoker-doctor"
_DENIED = re.compile(r'admission webhook "(?P<name>[^"]+)" denied')


class _DoctorWebhook(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    client_config: WebhookClientConfig = WebhookClientConfig()


class _DoctorWebhookMeta(msgspec.Struct, frozen=True):
    name: str = ""


class _DoctorWebhookConfiguration(msgspec.Struct, frozen=True):
    metadata: _DoctorWebhookMeta = _DoctorWebhookMeta()
    webhooks: tuple[_DoctorWebhook, ...] | None = None


class _EndpointConditions(msgspec.Struct, frozen=True):
    ready: bool | None = None


class _Endpoint(msgspec.Struct, frozen=True):
    addresses: tuple[str, ...] = ()
    conditions: _EndpointConditions = _EndpointConditions()


class _EndpointPort(msgspec.Struct, frozen=True):
    port: int | None = None


class _EndpointSlice(msgspec.Struct, frozen=True):
    endpoints: tuple[_Endpoint, ...] | None = None
    ports: tuple[_EndpointPort, ...] | None = None


async def _check_configurations(case: Examination) -> Finding:
    found: list[RegisteredWebhook] = []
    for resource in (MUTATING, VALIDATING):
        for one in await case.client.list(resource, into=_DoctorWebhookConfiguration):
            found += [
                RegisteredWebhook(f"{hook.name} of {resource.kind} {one.metadata.name}", hook.client_config)
                for hook in one.webhooks or ()
                if hook.name.endswith(OWN_WEBHOOK_DOMAINS)
            ]
    paths = {_path(one.config) for one in found}
    missing = [kind for path, kind in EXPECTED_WEBHOOKS.items() if path not in paths]
    if not found and (case.operator is None or not case.operator.admission):
        said = "not installed: agents are not injected, and resources are not validated"
        return Finding("webhooks", FindingStatus.NOTE, said, f"{INSTALL} --set webhook.enabled=true")
    if missing:
        said = f"there is no {first_names(missing)} of Stoker, so the API server does not ask the webhook"
        return failed_finding("webhooks", said, f"{INSTALL} --set webhook.enabled=true", Reason.NOT_FOUND)
    case.webhooks = [*found, *case.webhooks]
    empty = [one for one in case.webhooks if not one.config.ca_bundle]
    if empty:
        said = f"{empty[0].name} has no caBundle, so the API server does not trust it"
        return failed_finding("webhooks", said, _untrusted_ca_advice(empty[0]), Reason.MISCONFIGURED)
    return passed_finding("webhooks", f"{len(found)} webhooks are configured, each with a caBundle")


async def _check_endpoints(case: Examination) -> Finding | None:
    services = _services(case)
    if not services:
        return None
    counted = 0
    for one in services:
        ready = await _addresses(case, one)
        if not ready:
            said = (
                f"Service {one.namespace}/{one.name} has no ready endpoint, so the API server gets no answer"
            )
            fix = f"kubectl -n {one.namespace} get pods"
            return failed_finding(
                "endpoints", said, f"Find out why its pods are not ready: {fix}", Reason.SERVICE_UNREACHABLE
            )
        counted += len(ready)
    return passed_finding(
        "endpoints", f"{counted} behind {first_names([f'{one.namespace}/{one.name}' for one in services])}"
    )


async def _check_certificate(case: Examination) -> Finding | None:
    """Verify the served certificate against the caBundle, if the webhook can be reached from here."""
    if not case.webhooks:
        return None
    left: list[float] = []
    silent: list[str] = []
    now = case.now()
    for one in _distinct_webhooks(case.webhooks):
        name, places = await _webhook_addresses(case, one.config)
        for host, port in places:
            try:
                shown = await read_certificate(host, port, name, one.config.ca_bundle)
            except HandshakeUnreachable as error:
                silent.append(str(error))
                continue
            except CertificateUntrusted as error:
                said = f"{host}:{port} serves what the caBundle of {one.name} does not verify: {error}"
                return failed_finding(
                    "certificate", said, _untrusted_ca_advice(one), Reason.CERTIFICATE_NOT_TRUSTED
                )
            left.append((shown.ends - now).total_seconds() / 86_400)
            if shown.ends - now < EXPIRY_WARNING_SHARE * (shown.ends - shown.begins):
                said = f"the certificate at {host}:{port} ends in {left[-1]:.0f} days and was not renewed"
                return Finding("certificate", FindingStatus.NOTE, said, _untrusted_ca_advice(one))
    if not left:
        said = f"not checked from here: {silent[0] if silent else 'no address is known'}"
        return Finding(
            "certificate", FindingStatus.UNTRIED, said, "The next check tests it through the API server."
        )
    return passed_finding("certificate", f"verified by the caBundle, {min(left):.0f} days are left")


async def _check_admission(case: Examination) -> Finding:
    """Make the API server call the webhook: it resolves the Service and verifies the certificate."""
    namespace = case.place.namespace
    try:
        await case.client.raw(
            "POST",
            STOKERS.format(namespace),
            query={"dryRun": "All"},
            body=msgspec.json.encode(_forged_resource()),
            headers={"Content-Type": "application/json"},
        )
    except (Forbidden, Invalid, NotFound) as error:
        return refused_finding(error, namespace)
    except ServerError as error:
        return unanswered_finding(error, case.webhooks)
    said = f"the API server called no webhook for a resource in namespace {namespace}"
    if not case.webhooks:
        return Finding("admission", FindingStatus.NOTE, said)
    fix = "Check webhook.namespaceSelector of the chart, or name another --namespace."
    return Finding("admission", FindingStatus.NOTE, f"{said}: the webhook's selector leaves it out", fix)


def refused_finding(error: ApiError, namespace: str) -> Finding:
    """Finding for a refused request; only the webhook name in the API server's message proves who refused."""
    denied = _DENIED.search(error.message)
    if denied is not None and denied["name"].endswith(".stoker.io"):
        said = f"the API server asks the webhook about resources in namespace {namespace}, and trusts it"
        return passed_finding("admission", said)
    if error.reason is Reason.RBAC_DENIED or error.status == 404:
        fix = "Ask a user who may create a Stoker there, or name another namespace with --namespace."
        return Finding("admission", FindingStatus.UNTRIED, f"not tried: {error.message}", fix)
    return Finding(
        "admission",
        FindingStatus.UNTRIED,
        f"not tested: another webhook refused the request first: {error.message}",
    )


def unanswered_finding(error: ApiError, webhooks: Sequence[RegisteredWebhook]) -> Finding:
    if "failed calling webhook" not in error.message:
        raise error
    called = next((one for one in webhooks if one.name.split()[0] in error.message), None)
    if "x509" in error.message or "certificate" in error.message:
        fix = _untrusted_ca_advice(called) if called is not None else ""
        return failed_finding("admission", error.message, fix, Reason.CERTIFICATE_NOT_TRUSTED)
    where = called.config.service.namespace if called is not None and called.config.service else "NAMESPACE"
    fix = f"Check whether it runs: kubectl -n {where} get pods"
    return failed_finding("admission", error.message, fix, Reason.SERVICE_UNREACHABLE)


ADMISSION: DoctorChain = (
    ("webhooks", _check_configurations),
    ("endpoints", _check_endpoints),
    ("certificate", _check_certificate),
    ("admission", _check_admission),
)


def _forged_resource() -> dict[str, Any]:
    """A resource that our webhook never accepts: its approver is another user."""
    return {
        "apiVersion": "stoker.io/v1alpha1",
        "kind": "Stoker",
        "metadata": {
            "generateName": "stoker-doctor-",
            "annotations": {"stoker.io/approved-by": _FORGED_USER},
        },
        "spec": {"git": {"repo": "https://git.example.net/doctor.git", "ref": "main"}},
    }


def _untrusted_ca_advice(one: RegisteredWebhook) -> str:
    service = one.config.service
    said = "The webhook writes caBundle itself: it must run, and nothing else may write it"
    logs = f" (kubectl -n {service.namespace} logs deployment/{service.name})" if service is not None else ""
    return f"{said}{logs}. With cert-manager its cainjector writes it."


def _path(config: WebhookClientConfig) -> str:
    return (config.service.path if config.service is not None else "") or urlsplit(config.url or "").path


def _services(case: Examination) -> list[WebhookService]:
    found = {(one.namespace, one.name): one for it in case.webhooks if (one := it.config.service) is not None}
    return list(found.values())


def _distinct_webhooks(webhooks: Sequence[RegisteredWebhook]) -> list[RegisteredWebhook]:
    """Webhooks with different targets or caBundles; checking the others would repeat the same finding."""
    found: dict[object, RegisteredWebhook] = {}
    for one in webhooks:
        service = one.config.service
        place = (
            (service.namespace, service.name)
            if service is not None
            else urlsplit(one.config.url or "").netloc
        )
        found.setdefault((place, one.config.ca_bundle), one)
    return list(found.values())


async def _webhook_addresses(
    case: Examination, config: WebhookClientConfig
) -> tuple[str, list[tuple[str, int]]]:
    """Return the server name that the API server verifies, and the addresses behind it."""
    if config.service is None:
        parts = urlsplit(config.url or "")
        return parts.hostname or "", [(parts.hostname or "", parts.port or 443)]
    service = config.service
    try:
        places = await _addresses(case, service)
    except Forbidden:
        places = []
    return f"{service.name}.{service.namespace}.svc", places[:MAX_ADDRESSES]


async def _addresses(case: Examination, service: WebhookService) -> list[tuple[str, int]]:
    slices = await case.client.list(
        SLICES, service.namespace, into=_EndpointSlice, labels=f"kubernetes.io/service-name={service.name}"
    )
    return [
        (address, port.port)
        for one in slices
        for port in one.ports or ()
        for end in one.endpoints or ()
        if end.conditions.ready is not False and port.port is not None
        for address in end.addresses
    ]
