"""`IgnitionSync` and its gateways, as version 3 of the specification describes them."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyMap

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
from stoker.domain.intent.delivery import SharedVolumePolicy
from stoker.domain.intent.files import FileMapping, MappingKind, MissingSourcePolicy, OrphanPolicy
from stoker.domain.intent.intent import GatewayIntent, ResourceIdentity, SyncResourceKind
from stoker.domain.reasons import Reason

CORE = "config/resources/core"
GIT = {"repo": "git@github.com:inductive-automation/conf-proveit26-app.git", "ref": "2.0.0"}
GATEWAY = {"apiKeySecretRef": {"name": "ignition-api-key", "key": "apiKey"}}

# The resource of the specification's first worked example; note that its excludes lack `.resources`.
PROVE_IT = {
    "git": {**GIT, "auth": {"sshKey": {"secretRef": {"name": "git-sync-secret", "key": "ssh-privatekey"}}}},
    "gateway": {"port": 8043, "tls": True, **GATEWAY},
    "siteNumber": "1",
    "shared": {
        "externalResources": {
            "enabled": True,
            "source": "shared/ignition-gateway/config/resources/external",
            "createFallback": True,
        },
        "scripts": {
            "enabled": True,
            "source": "shared/scripts",
            "destPath": "ignition/script-python/exchange/proveit2026",
        },
        "udts": {"enabled": True, "source": "shared/udts"},
    },
    "additionalFiles": [
        {"source": "shared/config/factory-config.json", "dest": "factory-config.json", "type": "file"}
    ],
    "excludePatterns": ["**/.git/", "**/.gitkeep"],
    "normalize": {"systemName": True},
}

SITE = {
    "inject": "true",
    "cr-name": "proveit-sync",
    "service-path": "services/site",
    "deployment-mode": "prd-cloud",
    "tag-provider": "default",
    "system-name-template": "site{{.SiteNumber}}",
    "exclude-patterns": "**/tag-*/MQTT Engine/,**/tag-*/System/",
}


def known(
    spec: ReadOnlyMap[str, object] | None = None, annotations: dict[str, str] | None = None
) -> SettledResource[IgnitionSync]:
    metadata = {"name": "proveit-sync", "namespace": "site1", "annotations": annotations or {}}
    document = {"metadata": metadata, "spec": {"git": GIT, "gateway": GATEWAY, **(spec or {})}}
    return merge_spec(msgspec.convert(document, IgnitionSync))


def pod(annotations: ReadOnlyMap[str, str], prefix: str = "stoker.io/") -> PodFacts:
    labels = {"app.kubernetes.io/name": "site", "apps.kubernetes.io/pod-index": "0"}
    return PodFacts("site-gateway-0", "site1", labels, {prefix + k: v for k, v in annotations.items()})


def gateway(
    spec: ReadOnlyMap[str, object] | None = None,
    around: IntentContext | None = None,
    **annotations: str,
) -> GatewayIntent:
    named = {name.replace("_", "-"): value for name, value in annotations.items()}
    return gateway_intent_for(
        known(spec), pod({"service-path": "services/site", **named}), around or IntentContext()
    )


# --- the worked example ------------------------------------------------------------------------------------


def test_the_site_of_the_worked_example_gets_its_files_in_the_specified_order() -> None:
    intent = gateway_intent_for(known(PROVE_IT), pod(SITE, prefix="ignition-sync.io/"))
    assert intent.files.mappings == (
        FileMapping("services/site/projects", "projects", service_path="services/site"),
        FileMapping(f"services/site/{CORE}", CORE, service_path="services/site"),
        FileMapping(
            "services/site/config/resources/prd-cloud",
            CORE,
            when_missing=MissingSourcePolicy.FAIL,
            gives_way=("config-mode.json",),
            service_path="services/site",
        ),
        FileMapping(
            "shared/ignition-gateway/config/resources/external",
            "config/resources/external",
            when_missing=MissingSourcePolicy.CONFIG_MODE,
        ),
        FileMapping("shared/scripts", "projects/site/ignition/script-python/exchange/proveit2026"),
        FileMapping("shared/udts", f"{CORE}/ignition/tag-type-definition/default"),
        FileMapping("shared/config/factory-config.json", "factory-config.json", kind=MappingKind.FILE),
    )
    assert intent.files.excludes.patterns == (
        "**/.git/",
        "**/.gitkeep",
        "**/tag-*/MQTT Engine/",
        "**/tag-*/System/",
        "**/.resources/**",
    )
    assert intent.files.excludes.mandatory == ("**/.resources/**",)
    assert intent.files.transforms.system_name == "site{{.SiteNumber}}"
    assert (intent.values.site_number, intent.values.pod_ordinal) == ("1", "0")
    assert intent.resource == ResourceIdentity(SyncResourceKind.IGNITION_SYNC, "site1", "proveit-sync")
    assert intent.gateway == "site"


def test_the_missing_exclude_of_the_worked_example_is_added_with_a_notice() -> None:
    (notice,) = intent_for(known(PROVE_IT)).notices
    assert notice.reason is Reason.RUNTIME_FILES_NOT_EXCLUDED


@pytest.mark.parametrize("pattern", ["**/.resources/**", "**/.resources/", "**/.resources"])
def test_any_way_to_write_the_mandatory_exclude_will_do(pattern: str) -> None:
    assert intent_for(known({"excludePatterns": [pattern]})).notices == ()


def test_the_default_excludes_need_no_notice() -> None:
    assert intent_for(known()).notices == ()


# --- shared parts ------------------------------------------------------------------------------------------


def destinations(spec: ReadOnlyMap[str, object], **annotations: str) -> list[str]:
    return [one.destination for one in gateway(spec, None, **annotations).files.mappings[2:]]


def test_a_part_that_is_switched_off_is_not_synced() -> None:
    off = {"enabled": False, "source": "s"}
    shared = {
        "externalResources": off,
        "scripts": {**off, "destPath": "d"},
        "udts": off,
        "modules": {**off, "order": ["a.modl"]},
    }
    intent = gateway({"shared": shared})
    assert len(intent.files.mappings) == 2
    assert intent.policies.ignition.module_order == ()


def test_a_part_that_is_written_without_a_switch_is_on() -> None:
    assert destinations({"shared": {"udts": {"source": "u"}}}) == [
        f"{CORE}/ignition/tag-type-definition/default"
    ]


def test_types_of_tags_go_to_the_pods_tag_provider() -> None:
    assert destinations({"shared": {"udts": {"source": "u"}}}, tag_provider="edge") == [
        f"{CORE}/ignition/tag-type-definition/edge"
    ]
    assert gateway(tag_provider="edge").policies.ignition.tag_provider == "edge"


def test_scripts_of_a_service_at_the_root_go_to_a_project_named_after_the_gateway() -> None:
    scripts = {"shared": {"scripts": {"source": "s", "destPath": "script-python/x"}}}
    assert destinations(scripts, service_path=".", gateway_name="plant") == ["projects/plant/script-python/x"]


def test_without_a_fallback_missing_external_resources_are_skipped() -> None:
    intent = gateway({"shared": {"externalResources": {"source": "e"}}})
    assert intent.files.mappings[2].when_missing is MissingSourcePolicy.SKIP


def test_modules_share_their_folder_with_those_of_others() -> None:
    intent = gateway({"shared": {"modules": {"source": "m", "order": ["base.modl", "line.modl"]}}})
    assert intent.files.mappings[2] == FileMapping("m", "user-lib/modules", orphans=OrphanPolicy.OWNED)
    assert intent.policies.ignition.module_order == ("base.modl", "line.modl")


def test_additional_files_are_what_the_commit_has_unless_they_say_otherwise() -> None:
    files = [{"source": "a", "dest": "a"}, {"source": "fonts", "dest": "fonts", "type": "dir"}]
    assert gateway({"additionalFiles": files}).files.mappings[2:] == (
        FileMapping("a", "a", kind=None),
        FileMapping("fonts", "fonts", kind=MappingKind.DIR),
    )


def test_with_a_profile_shared_parts_come_before_its_overlay() -> None:
    document = {
        "metadata": {"name": "line", "namespace": "site1"},
        "spec": {
            "mappings": [{"source": "a", "destination": "b"}],
            "deploymentMode": {"source": "prod"},
            "excludePatterns": ["**/*.bak"],
        },
    }
    around = IntentContext({"line": msgspec.convert(document, SyncProfile)})
    spec = {"shared": {"scripts": {"source": "s", "destPath": "d"}}}
    intent = gateway(spec, around, sync_profile="line", service_path="")
    assert [one.destination for one in intent.files.mappings] == ["b", "projects/site/d", CORE]
    assert "**/*.bak" in intent.files.excludes.patterns
    assert intent.notices == ()


# --- the shared volume -------------------------------------------------------------------------------------


def test_without_storage_every_agent_keeps_its_own_clone() -> None:
    assert intent_for(known()).shared_volume is None


def test_storage_asks_for_a_shared_volume() -> None:
    intent = intent_for(known({"storage": {"storageClassName": "efs-sc", "size": "2Gi"}}))
    assert intent.shared_volume == SharedVolumePolicy("efs-sc", 2 << 30)


def test_a_registry_has_no_shared_volume_with_a_notice() -> None:
    for mode in ("ReadWriteMany", "ReadWriteOnce"):
        spec = {"git": {"repo": "oci://ghcr.io/plant", "ref": "v1"}, "storage": {"accessMode": mode}}
        intent = intent_for(known(spec))
        assert (intent.shared_volume, intent.single_gateway) == (None, False)
        assert [notice.reason for notice in intent.notices] == [Reason.FIELD_IGNORED]
        assert "registry" in intent.notices[0].message


def test_storage_for_one_pod_means_that_pods_own_clone_with_a_notice() -> None:
    intent = intent_for(known({"storage": {"accessMode": "ReadWriteOnce"}}))
    assert intent.shared_volume is None
    assert [notice.reason for notice in intent.notices] == [Reason.FIELD_IGNORED]
