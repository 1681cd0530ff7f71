"""The doctor's findings from API responses: differences of schemas, and the API server's own words."""

from __future__ import annotations

import pytest

from stoker.cli.doctor.admission import refused_finding, unanswered_finding
from stoker.cli.doctor.api_server import schema_difference
from stoker.cli.doctor.checks import RegisteredWebhook, WebhookClientConfig, WebhookService
from stoker.domain.findings import FindingStatus
from stoker.domain.reasons import Reason
from stoker.kube.client.errors import Forbidden, ServerError

OURS = {
    "properties": {
        "kind": {"type": "string"},
        "spec": {
            "properties": {
                "git": {"properties": {"repo": {"description": "one"}, "ref": {}}},
                "mappings": {"items": {"properties": {"source": {}}}},
                "vars": {"additionalProperties": {"properties": {"value": {}}}},
            }
        },
    }
}
WEBHOOKS = [
    RegisteredWebhook(
        "approve.stoker.io of a configuration", WebhookClientConfig(service=WebhookService("home", "hooks"))
    )
]


@pytest.mark.parametrize(
    ("theirs", "lacking"),
    [
        ({"properties": {}}, ("spec",)),
        ({"properties": {"spec": {"properties": {}}}}, ("spec.git", "spec.mappings", "spec.vars")),
        (
            {
                "properties": {
                    "spec": {"properties": {"git": {"properties": {"repo": {}}}, "mappings": {}, "vars": {}}}
                }
            },
            ("spec.git.ref", "spec.mappings[].source", "spec.vars[].value"),
        ),
        (OURS, ()),
    ],
)
def test_of_a_block_that_is_missing_the_block_alone_is_named(
    theirs: dict[str, object], lacking: tuple[str, ...]
) -> None:
    assert schema_difference(OURS, theirs).lacking == lacking
    assert schema_difference(theirs, OURS).unknown == lacking


def test_what_is_only_described_otherwise_is_no_difference() -> None:
    other = {"properties": {"spec": {"properties": {"git": {"description": "another"}}, "type": "object"}}}
    assert schema_difference({"properties": {"spec": {"properties": {"git": {}}}}}, other) == ((), ())


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("tls: failed to verify certificate: x509: certificate has expired", Reason.CERTIFICATE_NOT_TRUSTED),
        ("dial tcp 10.0.0.1:443: connect: connection refused", Reason.SERVICE_UNREACHABLE),
        ('no endpoints available for service "hooks"', Reason.SERVICE_UNREACHABLE),
    ],
)
def test_what_the_api_server_says_of_a_webhook_that_it_could_not_ask(message: str, reason: Reason) -> None:
    failed = 'Internal error occurred: failed calling webhook "approve.stoker.io"'
    words = f"{failed}: failed to call webhook: {message}"
    found = unanswered_finding(ServerError(words, status=500), WEBHOOKS)
    assert (found.mark, found.reason) == (FindingStatus.WRONG, reason)
    assert "-n home " in found.fix


def test_another_failure_of_the_api_server_is_not_the_webhooks() -> None:
    with pytest.raises(ServerError):
        unanswered_finding(ServerError("etcdserver: request timed out", status=500), WEBHOOKS)


@pytest.mark.parametrize(
    ("message", "mark"),
    [
        ('admission webhook "approve.stoker.io" denied the request: you are not nobody', FindingStatus.WELL),
        (
            'admission webhook "policy.example.net" denied the request: stokers.stoker.io wants an owner',
            FindingStatus.UNTRIED,
        ),
        (
            'admission webhook "policy.example.net" denied: admission webhook "approve.stoker.io" denied it',
            FindingStatus.UNTRIED,
        ),
    ],
)
def test_only_a_refusal_of_our_own_webhook_shows_that_it_is_asked(message: str, mark: FindingStatus) -> None:
    error = Forbidden(f"create stokers: {message}", status=403, reason=Reason.REJECTED)
    assert refused_finding(error, "plant").mark is mark
