"""Every annotation becomes a typed setting, or a sentence that names it."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from stoker.api.to_intent.annotations.annotations import PodSettings, pod_settings
from stoker.api.to_intent.pod_facts import PodAnnotationKey, PodFacts
from stoker.domain.errors import InvalidValue
from stoker.domain.intent.policies import RedundancyRole, TagInheritance
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef


def settings(prefix: str = "stoker.io/", **annotations: str) -> PodSettings:
    named = {prefix + name.replace("_", "-"): value for name, value in annotations.items()}
    return pod_settings(PodFacts("pod-0", "plant", {}, named))


NOTHING = PodSettings(gateway="pod-0")

# For every key: a value, and the one field of the settings that it makes.
UNDERSTOOD: dict[PodAnnotationKey, tuple[str, PodSettings]] = {
    PodAnnotationKey.INJECT: ("true", replace(NOTHING, inject=True)),
    PodAnnotationKey.CR_NAME: ("brewery-sync", replace(NOTHING, resource="brewery-sync")),
    PodAnnotationKey.CR_KIND: ("Stoker", replace(NOTHING, resource_kind="Stoker")),
    PodAnnotationKey.GATEWAY_NAME: ("filler", replace(NOTHING, gateway="filler")),
    PodAnnotationKey.SERVICE_PATH: ("./services/filler/", replace(NOTHING, service_path="services/filler")),
    PodAnnotationKey.SYNC_PROFILE: ("line-profile", replace(NOTHING, profile="line-profile")),
    PodAnnotationKey.REF_OVERRIDE: ("feature/x", replace(NOTHING, ref_override=GitRef("feature/x"))),
    PodAnnotationKey.DEPLOYMENT_MODE: ("prd-cloud", replace(NOTHING, deployment_mode="prd-cloud")),
    PodAnnotationKey.SYNC_PERIOD: ("45", replace(NOTHING, sync_period=45.0)),
    PodAnnotationKey.EXCLUDE_PATTERNS: (
        "**/tag-*/MQTT Engine/, **/*.{bak,tmp}",
        replace(NOTHING, excludes=("**/tag-*/MQTT Engine/", "**/*.{bak,tmp}")),
    ),
    PodAnnotationKey.SYSTEM_NAME: ("Filler 1", replace(NOTHING, system_name="Filler 1")),
    PodAnnotationKey.SYSTEM_NAME_TEMPLATE: (
        "site{{.SiteNumber}}",
        replace(NOTHING, system_name_template="site{{.SiteNumber}}"),
    ),
    PodAnnotationKey.TIME_ZONE: ("Europe/Berlin", replace(NOTHING, time_zone="Europe/Berlin")),
    PodAnnotationKey.LOCALE: ("de_DE", replace(NOTHING, locale="de_DE")),
    PodAnnotationKey.TAG_PROVIDER: ("edge", replace(NOTHING, tag_provider="edge")),
    PodAnnotationKey.EXCLUDE_TAG_PROVIDERS: (
        "mqtt-engine, MQTT Engine",
        replace(NOTHING, excluded_tag_providers=("mqtt-engine", "MQTT Engine")),
    ),
    PodAnnotationKey.TAG_INHERITANCE_STRATEGY: (
        "leaf-only",
        replace(NOTHING, tag_inheritance=TagInheritance.LEAF_ONLY),
    ),
    PodAnnotationKey.REDUNDANCY_ROLE: ("backup", replace(NOTHING, redundancy_role=RedundancyRole.BACKUP)),
    PodAnnotationKey.PEER_GATEWAY_NAME: ("site-backup", replace(NOTHING, peer_gateway="site-backup")),
    PodAnnotationKey.GATEWAY_PORT: ("8088", replace(NOTHING, gateway_port=8088)),
    PodAnnotationKey.GATEWAY_TLS: ("false", replace(NOTHING, gateway_tls=False)),
    PodAnnotationKey.DATA_VOLUME: ("ignition-data", replace(NOTHING, data_volume="ignition-data")),
    PodAnnotationKey.SNAPSHOT_VOLUME: ("snapshots", replace(NOTHING, snapshot_volume="snapshots")),
    PodAnnotationKey.APPROVED_PLAN: (
        "sha256:abcdef0123",
        replace(NOTHING, approved_plans=("sha256:abcdef0123",)),
    ),
    PodAnnotationKey.AGENT_IMAGE: (
        "mirror.example.net:5000/plant/stoker:1.2",
        replace(NOTHING, agent_image="mirror.example.net:5000/plant/stoker:1.2"),
    ),
    PodAnnotationKey.INJECTED: ("0123456789abcdef", replace(NOTHING, injected="0123456789abcdef")),
}


@pytest.mark.parametrize("key", list(PodAnnotationKey))
@pytest.mark.parametrize("prefix", ["stoker.io/", "ignition-sync.io/"])
def test_every_annotation_is_understood_under_both_prefixes(key: PodAnnotationKey, prefix: str) -> None:
    value, expected = UNDERSTOOD[key]
    found = settings(prefix, **{str(key): value})
    assert replace(found, notices=()) == expected


REFUSED = {
    PodAnnotationKey.INJECT: ["yes", "True", "1"],
    PodAnnotationKey.CR_NAME: ["Brewery", "a b", "-a", "x" * 254],
    PodAnnotationKey.CR_KIND: ["stoker", "Stoker/v1"],
    PodAnnotationKey.SERVICE_PATH: ["/services", "services/../etc", "a\\b", "C:/x", "services/.git"],
    PodAnnotationKey.SYNC_PROFILE: ["Line", "line/profile"],
    PodAnnotationKey.REF_OVERRIDE: ["--upload-pack=x", "a..b", "a b"],
    PodAnnotationKey.DEPLOYMENT_MODE: ["../core", "a/b", ".hidden", "{{.Namespace}}", "dot."],
    PodAnnotationKey.SYNC_PERIOD: ["0", "-5", "soon", "25h", "1e9"],
    PodAnnotationKey.EXCLUDE_PATTERNS: ["**/*.{a,b", "**/*.a}", "a\x07b", ",".join(["x"] * 257), "y" * 513],
    PodAnnotationKey.SYSTEM_NAME: ["site{{.SiteNumber}}", "a}}", "x" * 256, "a\x00"],
    PodAnnotationKey.SYSTEM_NAME_TEMPLATE: ["x" * 4097, "a\nb"],
    PodAnnotationKey.TIME_ZONE: ["../etc/passwd", "Europe Berlin"],
    PodAnnotationKey.LOCALE: ["english please", "x"],
    PodAnnotationKey.TAG_PROVIDER: ["a/b", "*", "[x]", "../x"],
    PodAnnotationKey.EXCLUDE_TAG_PROVIDERS: ["ok,a/b", "**", ",".join(["p"] * 65)],
    PodAnnotationKey.TAG_INHERITANCE_STRATEGY: ["half", "FULL"],
    PodAnnotationKey.REDUNDANCY_ROLE: ["master"],
    PodAnnotationKey.PEER_GATEWAY_NAME: ["a/b"],
    PodAnnotationKey.GATEWAY_PORT: ["65536", "http", "-1", "0"],
    PodAnnotationKey.GATEWAY_TLS: ["on"],
    PodAnnotationKey.DATA_VOLUME: ["Data", "a.b"],
    PodAnnotationKey.SNAPSHOT_VOLUME: ["Data"],
    PodAnnotationKey.APPROVED_PLAN: ["short", "sha256:abc def"],
    PodAnnotationKey.AGENT_IMAGE: ["two words", "-x", "a:b:c", "a@sha256:12", "x" * 513, "a\nb"],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, bad in REFUSED.items() for value in bad])
def test_a_bad_value_is_refused_with_the_annotations_name(key: PodAnnotationKey, value: str) -> None:
    with pytest.raises(InvalidValue) as refusal:
        settings(**{str(key): value})
    assert refusal.value.message.startswith(f"annotation stoker.io/{key} is ")
    assert len(refusal.value.message) < 400


def test_a_long_value_is_not_repeated_in_full() -> None:
    with pytest.raises(InvalidValue) as refusal:
        settings(system_name="secret" * 100)
    assert len(refusal.value.message) < 250


def test_a_period_may_be_a_duration() -> None:
    assert settings(sync_period="2m").sync_period == 120.0


def test_the_service_path_may_be_the_repository_itself() -> None:
    assert settings(service_path=".").service_path == ""


def test_a_pod_without_annotations_wants_nothing() -> None:
    assert settings() == NOTHING


@pytest.mark.parametrize("value", [",,", " , "])
def test_empty_entries_of_a_list_are_dropped(value: str) -> None:
    assert settings(exclude_patterns=value + "**/*.bak").excludes == ("**/*.bak",)


def test_an_escaped_brace_does_not_open_one() -> None:
    assert settings(exclude_patterns=r"a\{,b").excludes == (r"a\{", "b")


def test_the_legacy_prefix_is_noticed_once_for_all_annotations() -> None:
    (notice,) = settings("ignition-sync.io/", service_path="a", tag_provider="edge").notices
    assert notice.reason is Reason.LEGACY_ANNOTATION
    assert "ignition-sync.io/service-path" in notice.message
    assert "ignition-sync.io/tag-provider" in notice.message


def test_a_legacy_annotation_that_a_new_one_overrules_is_not_noticed() -> None:
    both = {"stoker.io/service-path": "new", "ignition-sync.io/service-path": "old"}
    found = pod_settings(PodFacts("pod-0", "plant", {}, both))
    assert found == replace(NOTHING, service_path="new")


def test_a_misspelt_annotation_is_noticed_with_what_was_meant() -> None:
    (notice,) = settings(sync_profle="line").notices
    assert notice.reason is Reason.UNKNOWN_ANNOTATION
    assert notice.message == (
        "unknown annotation stoker.io/sync-profle; did you mean stoker.io/sync-profile?"
    )


def test_annotations_of_others_are_none_of_our_business() -> None:
    found = pod_settings(PodFacts("pod-0", "plant", {}, {"example.com/inject": "maybe", "inject": "x"}))
    assert found == NOTHING


def test_thousands_of_unknown_annotations_are_counted_and_not_compared() -> None:
    many = {f"stoker.io/servce-path-{number}": "x" for number in range(5_000)}
    began = time.process_time()
    *named, last = pod_settings(PodFacts("pod-0", "plant", annotations=many)).notices
    assert time.process_time() - began < 1
    assert len(named) == 20
    assert "4980 more" in last.message
