"""A profile or a service path becomes one ordered list of mappings."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyMap

import msgspec
import pytest

from stoker.api.defaults import with_defaults
from stoker.api.kinds.stoker import SyncProfile
from stoker.api.to_intent.annotations.annotations import PodSettings
from stoker.api.to_intent.gateway_content import GatewayContent, content_for
from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.intent.files import FileMapping, FilePatch, MappingKind, MissingSourcePolicy
from stoker.domain.reasons import Reason

CORE = "config/resources/core"


def profile(name: str = "line", **spec: object) -> SyncProfile:
    mappings = [{"source": "a", "destination": "b"}]
    document = {"metadata": {"name": name, "namespace": "plant"}, "spec": {"mappings": mappings, **spec}}
    return msgspec.convert(document, SyncProfile)


def content(
    *profiles: SyncProfile,
    named: str = "",
    service_path: str | None = None,
    deployment_mode: str = "",
) -> GatewayContent:
    settings = PodSettings(
        gateway="filler", profile=named, service_path=service_path, deployment_mode=deployment_mode
    )
    return content_for(settings, "plant", {one.metadata.name: one for one in profiles})


# --- the v3 layout -----------------------------------------------------------------------------------------


def test_a_service_path_means_projects_and_core() -> None:
    found = content(service_path="services/filler")
    assert found.mappings == (
        FileMapping("services/filler/projects", "projects", service_path="services/filler"),
        FileMapping(f"services/filler/{CORE}", CORE, service_path="services/filler"),
    )
    assert found.service_path == "services/filler"


def test_the_repository_itself_may_be_the_service() -> None:
    found = content(service_path="")
    assert [one.source for one in found.mappings] == ["projects", CORE]
    assert found.service_path == "."


def test_the_deployment_mode_overlays_core_and_must_exist() -> None:
    found = content(service_path="services/filler", deployment_mode="prd-cloud")
    assert found.mappings[-1] == FileMapping(
        "services/filler/config/resources/prd-cloud",
        CORE,
        when_missing=MissingSourcePolicy.FAIL,
        gives_way=("config-mode.json",),
        service_path="services/filler",
    )


# --- profiles ----------------------------------------------------------------------------------------------


def test_mappings_of_a_profile_keep_their_order_and_meaning() -> None:
    found = content(
        profile(
            mappings=[
                {"source": "s/{{.Vars.line}}", "destination": "projects", "required": True},
                {"source": "p.json", "destination": "p.json", "type": "file", "template": True},
                {"source": "icons", "destination": "icons", "type": "dir"},
            ]
        ),
        named="line",
    )
    assert found.mappings == (
        FileMapping("s/{{.Vars.line}}", "projects", kind=None, when_missing=MissingSourcePolicy.FAIL),
        FileMapping("p.json", "p.json", kind=MappingKind.FILE, template=True),
        FileMapping("icons", "icons", kind=MappingKind.DIR),
    )
    assert found.profile == "line"
    assert found.service_path == ""


@pytest.mark.parametrize(("given", "meant"), [({}, CORE), ({"destination": "elsewhere"}, "elsewhere")])
def test_the_profiles_deployment_mode_is_an_overlay(given: ReadOnlyMap[str, str], meant: str) -> None:
    found = content(profile(deploymentMode={"source": "prod", **given}), named="line")
    assert found.overlay == (
        FileMapping("prod", meant, when_missing=MissingSourcePolicy.FAIL, gives_way=("config-mode.json",)),
    )


def test_the_rest_of_a_profile_is_kept() -> None:
    found = content(
        profile(
            vars={"line": "1"},
            excludePatterns=["**/*.bak"],
            dependsOn=[{"profileName": "site"}],
            syncPeriod=45,
            dryRun=True,
            paused=True,
        ),
        named="line",
    )
    assert found.vars == {"line": "1"}
    assert found.excludes == ("**/*.bak",)
    assert found.depends_on == ("site",)
    assert (found.sync_period, found.dry_run, found.paused) == (45.0, True, True)


def test_values_of_a_patch_have_one_order_wherever_the_profile_comes_from() -> None:
    """The API server sorts the keys of a map, a file on disk does not."""
    found = content(profile(patches=[{"file": "f", "set": {".b": "2", ".a": "1"}}]), named="line")
    assert found.patches == (FilePatch("f", ((".a", "1"), (".b", "2"))),)


def test_what_a_profile_leaves_out_is_what_the_built_in_values_say() -> None:
    bare = profile(deploymentMode={"source": "prod"})
    spec = with_defaults("SyncProfile", msgspec.json.decode(msgspec.json.encode(bare.spec)))
    full = msgspec.convert({"metadata": {"name": "line", "namespace": "plant"}, "spec": spec}, SyncProfile)
    assert full != bare
    assert content(full, named="line") == content(bare, named="line")


def test_a_profile_that_does_not_exist_stalls_the_gateway_by_name() -> None:
    with pytest.raises(
        Stalled, match="SyncProfile plant/lin, which gateway filler names, does not exist"
    ) as e:
        content(profile("line"), named="lin")
    assert e.value.reason is Reason.PROFILE_NOT_FOUND


def test_a_profile_that_waits_for_itself_stalls_the_gateway() -> None:
    circle = (
        profile("a", dependsOn=[{"profileName": "b"}]),
        profile("b", dependsOn=[{"profileName": "a"}]),
    )
    with pytest.raises(InvalidValue, match="a waits for b waits for a"):
        content(*circle, named="a")


# --- both, or neither --------------------------------------------------------------------------------------


def test_a_profile_wins_over_a_service_path_with_a_notice() -> None:
    found = content(profile(), named="line", service_path="services/filler", deployment_mode="prd")
    assert found.mappings == (FileMapping("a", "b", kind=None),)
    assert [notice.reason for notice in found.notices] == [Reason.ANNOTATION_IGNORED] * 2
    assert "service-path" in found.notices[0].message
    assert "deployment-mode" in found.notices[1].message


def test_a_gateway_that_names_neither_is_refused() -> None:
    with pytest.raises(InvalidValue, match=r"stoker\.io/sync-profile nor stoker\.io/service-path") as e:
        content(profile())
    assert e.value.reason is Reason.NO_MAPPINGS
