"""Annotations of a gateway change its intent, whatever its resource says."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyMap
from typing import Any

import msgspec
import pytest

from stoker.api.kinds.ignitionsync import IgnitionSync
from stoker.api.kinds.stoker import SyncProfile
from stoker.api.to_intent import (
    IntentContext,
    PodFacts,
    SettledResource,
    gateway_intent_for,
    intent_for,
    merge_spec,
)
from stoker.domain.errors import InvalidValue
from stoker.domain.intent.annotation_requests import PlanApproval
from stoker.domain.intent.files import FieldTemplate, TagProviderName
from stoker.domain.intent.intent import GatewayIntent
from stoker.domain.intent.policies import RedundancyRole
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef

GATEWAY = {"apiKeySecretRef": {"name": "ignition-api-key", "key": "apiKey"}}
LABELS = {"app.kubernetes.io/name": "site", "apps.kubernetes.io/pod-index": "0"}


def known(
    spec: ReadOnlyMap[str, object] | None = None, annotations: dict[str, str] | None = None
) -> SettledResource[IgnitionSync]:
    metadata = {"name": "proveit-sync", "namespace": "site1", "annotations": annotations or {}}
    git = {"repo": "https://git.example.net/plant.git", "ref": "2.0.0"}
    document = {"metadata": metadata, "spec": {"git": git, "gateway": GATEWAY, **(spec or {})}}
    return merge_spec(msgspec.convert(document, IgnitionSync))


def pod(**annotations: str) -> PodFacts:
    named = {f"stoker.io/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return PodFacts("site-gateway-0", "site1", LABELS, {"stoker.io/service-path": "services/site", **named})


def gateway(
    spec: ReadOnlyMap[str, object] | None = None, around: IntentContext | None = None, **annotations: str
) -> GatewayIntent:
    return gateway_intent_for(known(spec), pod(**annotations), around or IntentContext())


def test_excluded_tag_providers_become_excludes() -> None:
    patterns = gateway(exclude_tag_providers="mqtt-engine,MQTT Engine").files.excludes.patterns
    assert patterns[-2:] == ("**/tag-*/mqtt-engine/", "**/tag-*/MQTT Engine/")


@pytest.mark.parametrize("source", [".", "./", "./."])
def test_a_mapping_of_the_whole_repository_is_refused_where_changes_flow_back(source: str) -> None:
    mapping = {"source": source, "destination": "projects"}
    wire = {"metadata": {"name": "all", "namespace": "site1"}, "spec": {"mappings": [mapping]}}
    around = IntentContext({"all": msgspec.convert(wire, SyncProfile)})
    assert gateway(None, around, sync_profile="all").files.mappings[0].source == source
    back = {"bidirectional": {"enabled": True, "watchPaths": ["projects/**"]}}
    with pytest.raises(InvalidValue, match="maps the whole repository") as refused:
        gateway(back, around, sync_profile="all")
    assert refused.value.reason is Reason.INVALID_SPEC


def test_a_pattern_that_is_excluded_twice_is_listed_once() -> None:
    patterns = gateway({"excludePatterns": ["a", "**/.resources/**"]}, exclude_patterns="b,a")
    assert patterns.files.excludes.patterns == ("a", "**/.resources/**", "b")


def test_a_ref_override_is_the_gateways_own_ref() -> None:
    intent = gateway(ref_override="hotfix")
    assert (intent.source.ref, intent.ref_overridden) == (GitRef("hotfix"), True)
    assert (gateway().source.ref, gateway().ref_overridden) == (GitRef("2.0.0"), False)


def test_a_bad_ref_override_stalls_the_gateway_and_names_the_annotation() -> None:
    with pytest.raises(InvalidValue, match=r"annotation stoker\.io/ref-override"):
        gateway(ref_override="--exec")


@pytest.mark.parametrize(
    ("annotations", "name"),
    [
        ({}, "{{.GatewayName}}"),
        ({"system_name_template": "x{{.Namespace}}"}, "x{{.Namespace}}"),
        ({"system_name_template": "x", "system_name": "Site 1"}, "Site 1"),
    ],
)
def test_the_system_name_comes_from_the_most_exact_annotation(annotations: dict[str, str], name: str) -> None:
    intent = gateway({"normalize": {"systemName": True}}, None, **annotations)
    assert intent.files.transforms.system_name == name


def test_a_system_name_without_normalization_is_not_used_with_a_notice() -> None:
    intent = gateway({"normalize": {"systemName": False}}, system_name="Site 1")
    assert intent.files.transforms.system_name is None
    assert [notice.reason for notice in intent.notices] == [Reason.ANNOTATION_IGNORED]


def test_fields_and_templates_are_both_applied_and_templates_have_the_last_word() -> None:
    normalize = {
        "fields": [{"jsonPath": ".a", "valueTemplate": "field"}],
        "templates": [{"jsonPath": ".a", "valueTemplate": "template"}],
    }
    assert gateway({"normalize": normalize}).files.transforms.fields == (
        FieldTemplate(".a", "field"),
        FieldTemplate(".a", "template"),
    )


def test_the_pods_redundancy_role_wins_over_the_resources() -> None:
    spec = {"ignition": {"redundancyRole": "primary", "peerGatewayName": "b"}}
    ignition = gateway(spec, redundancy_role="backup", peer_gateway_name="a").policies.ignition
    assert (ignition.redundancy_role, ignition.peer_gateway) == (RedundancyRole.BACKUP, "a")
    alone = gateway(spec).policies.ignition
    assert (alone.redundancy_role, alone.peer_gateway) == (RedundancyRole.PRIMARY, "b")


def test_one_role_in_the_resource_is_not_meant_for_several_gateways() -> None:
    spec = {"ignition": {"redundancyRole": "primary", "peerGatewayName": "b"}}
    intent = gateway(spec, IntentContext(alone=False))
    ignition = intent.policies.ignition
    assert (ignition.redundancy_role, ignition.peer_gateway) == (RedundancyRole.STANDALONE, "")
    assert [notice.reason for notice in intent.notices] == [Reason.FIELD_IGNORED]


def test_a_pod_may_have_its_own_port_and_tls() -> None:
    intent = gateway(gateway_port="8088", gateway_tls="false")
    assert (intent.policies.access.port, intent.policies.access.tls) == (8088, False)
    assert intent.notices == ()


def test_the_tls_port_without_tls_is_noticed_where_it_was_set() -> None:
    assert [one.reason for one in gateway(gateway_tls="false").notices] == [Reason.PORT_WITHOUT_TLS]
    spec = {"gateway": {**GATEWAY, "tls": False}}
    assert [one.reason for one in intent_for(known(spec)).notices] == [Reason.PORT_WITHOUT_TLS]
    assert gateway(spec).notices == ()


def test_plans_may_be_approved_on_the_resource_and_on_the_pod() -> None:
    resource = known(annotations={"sync.ignition.io/approved-plan": "aaaaaaaa"})
    intent = gateway_intent_for(resource, pod(approved_plan="bbbbbbbb"))
    assert intent.approved_plans == (PlanApproval("aaaaaaaa", "resource"), PlanApproval("bbbbbbbb", "pod"))


@pytest.mark.parametrize("approval", [{"required": True}, {"teams": ["plant-leads"]}])
def test_where_approvers_are_named_only_a_named_approval_of_the_resource_counts(
    approval: dict[str, Any],
) -> None:
    plan = {"sync.ignition.io/approved-plan": "aaaaaaaa"}
    named = {"sync.ignition.io/approved-by": "lead", "sync.ignition.io/approved-at": "2026-03-02T08:15:00Z"}
    alone, whole = (known({"approval": approval}, annotations=each) for each in (plan, plan | named))
    assert gateway_intent_for(alone, pod(approved_plan="bbbbbbbb")).approved_plans == ()
    given = "resource 2026-03-02T08:15:00.000000Z"
    assert gateway_intent_for(whole, pod(approved_plan="bbbbbbbb")).approved_plans == (
        PlanApproval("aaaaaaaa", given),
    )


def test_templates_know_the_pod_and_the_cluster() -> None:
    values = gateway(None, IntentContext(cluster_name="east"), time_zone="Europe/Berlin", locale="de").values
    assert (values.gateway_name, values.namespace, values.pod_name) == ("site", "site1", "site-gateway-0")
    assert (values.cluster_name, values.time_zone, values.locale) == ("east", "Europe/Berlin", "de")
    assert values.labels["app.kubernetes.io/name"] == "site"


def test_a_tag_provider_of_another_name_is_renamed_in_what_refers_to_it() -> None:
    assert gateway(tag_provider="site-tags").files.transforms.tag_provider == TagProviderName(
        "default", "site-tags"
    )
    assert gateway(tag_provider="default").files.transforms.tag_provider is None
    assert gateway().files.transforms.tag_provider is None
