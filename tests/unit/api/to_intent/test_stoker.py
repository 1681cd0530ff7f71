"""`Stoker` and the gateways that name a `SyncProfile`."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyMap

import msgspec
import pytest

from stoker.api.kinds.resource import CustomResource
from stoker.api.kinds.stoker import Stoker, SyncProfile
from stoker.api.to_intent import (
    MODELS,
    IntentContext,
    PodFacts,
    SettledResource,
    base_ref,
    gateway_intent_for,
    intent_for,
    merge_spec,
)
from stoker.domain.errors import InvalidValue
from stoker.domain.intent.files import FileMapping, MissingSourcePolicy
from stoker.domain.intent.intent import GatewayIntent, ResourceIdentity, SyncResourceKind
from stoker.domain.reasons import Reason

GIT = {"repo": "git@git.example.net:dairy/scada.git", "ref": "v12"}


def raw(**spec: object) -> Stoker:
    document = {"metadata": {"name": "dairy", "namespace": "east"}, "spec": {"git": GIT, **spec}}
    return msgspec.convert(document, Stoker)


def known(**spec: object) -> SettledResource[Stoker]:
    return merge_spec(raw(**spec))


def profile(**spec: object) -> SyncProfile:
    mappings = [{"source": "services/{{.Vars.line}}", "destination": "projects", "required": True}]
    document = {"metadata": {"name": "line", "namespace": "east"}, "spec": {"mappings": mappings, **spec}}
    return msgspec.convert(document, SyncProfile)


def gateway(
    spec: ReadOnlyMap[str, object] | None = None,
    profile_spec: ReadOnlyMap[str, object] | None = None,
    **annotations: str,
) -> GatewayIntent:
    named = {"sync-profile": "line", **{key.replace("_", "-"): value for key, value in annotations.items()}}
    pod = PodFacts("p-0", "east", {}, {f"stoker.io/{key}": value for key, value in named.items()})
    return gateway_intent_for(
        known(**(spec or {})), pod, IntentContext({"line": profile(**(profile_spec or {}))})
    )


def test_a_profile_becomes_the_files_of_a_gateway() -> None:
    intent = gateway(
        None,
        {
            "vars": {"line": "pasteurizer"},
            "deploymentMode": {"source": "prod"},
            "excludePatterns": ["**/*.bak"],
            "dependsOn": [{"profileName": "site"}],
        },
    )
    assert intent.resource == ResourceIdentity(SyncResourceKind.STOKER, "east", "dairy")
    assert intent.files.mappings == (
        FileMapping("services/{{.Vars.line}}", "projects", kind=None, when_missing=MissingSourcePolicy.FAIL),
        FileMapping(
            "prod",
            "config/resources/core",
            when_missing=MissingSourcePolicy.FAIL,
            gives_way=("config-mode.json",),
        ),
    )
    assert intent.files.excludes.patterns == ("**/.git/", "**/.gitkeep", "**/.resources/**", "**/*.bak")
    assert intent.files.excludes.mandatory == ()
    assert intent.values.vars == {"line": "pasteurizer"}
    assert (intent.profile, intent.depends_on) == ("line", ("site",))
    assert intent.notices == ()


def test_dropping_the_runtime_files_from_the_excludes_is_noticed_and_not_forbidden() -> None:
    (notice,) = intent_for(known(excludePatterns=["**/.git/"])).notices
    assert notice.reason is Reason.RUNTIME_FILES_NOT_EXCLUDED


@pytest.mark.parametrize(
    ("annotation", "profile_period", "period"), [("", None, 30.0), ("", 45, 45.0), ("60", 45, 60.0)]
)
def test_the_period_comes_from_the_pod_else_the_profile_else_it_is_thirty_seconds(
    annotation: str, profile_period: int | None, period: float
) -> None:
    spec = {} if profile_period is None else {"syncPeriod": profile_period}
    assert gateway(None, spec, sync_period=annotation).sync_period == period


@pytest.mark.parametrize(("of_resource", "of_profile"), [(True, False), (False, True), (True, True)])
def test_a_gateway_is_paused_by_its_resource_or_its_profile(of_resource: bool, of_profile: bool) -> None:
    assert gateway({"paused": of_resource}, {"paused": of_profile}).paused
    assert not gateway({"paused": False}, {"paused": False}).paused


def test_time_zone_and_locale_may_come_from_variables_and_annotations_win() -> None:
    variables = {"vars": {"TimeZone": "UTC", "Locale": "en"}}
    values = gateway(None, variables).values
    assert (values.time_zone, values.locale) == ("UTC", "en")
    assert gateway(None, variables, time_zone="Europe/Berlin").values.time_zone == "Europe/Berlin"


def test_without_a_gateway_block_nothing_talks_to_a_gateway() -> None:
    assert intent_for(known()).policies.access.files_only
    access = intent_for(known(gateway={"apiKeySecretRef": {"name": "n", "key": "k"}})).policies.access
    assert (access.files_only, access.port) == (False, 8043)


def test_a_pod_with_only_a_service_path_gets_the_v3_layout() -> None:
    pod = PodFacts("p-0", "east", {}, {"stoker.io/service-path": "services/site"})
    intent = gateway_intent_for(known(), pod)
    assert [one.destination for one in intent.files.mappings] == ["projects", "config/resources/core"]


def test_a_stoker_inherits_from_no_base() -> None:
    assert base_ref(raw()) is None


def test_a_spec_that_was_never_settled_means_the_same() -> None:
    """The built-in values of the API and the defaults of the intent are two tables; they must agree."""
    settled, as_written = (
        intent_for(known()),
        intent_for(SettledResource(raw(excludePatterns=["**/.resources/**"]))),
    )
    assert {
        name
        for name in settled.__slots__
        if name != "agent" and getattr(settled, name) != getattr(as_written, name)
    } == set()
    assert (settled.agent.requests, settled.agent.limits) == (
        as_written.agent.requests,
        as_written.agent.limits,
    )
    assert settled.agent.startup_budget == as_written.agent.startup_budget
    assert settled.agent.sidecar_mode == as_written.agent.sidecar_mode


def test_a_kind_that_syncs_no_gateways_has_no_intent() -> None:
    stranger: CustomResource = profile()
    assert type(stranger) not in MODELS
    with pytest.raises(InvalidValue, match="a SyncProfile does not sync gateways"):
        merge_spec(stranger)
