"""A resource, its base, the installation and the built-in values become one spec."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from stoker.api.kinds.ignitionsync import IgnitionSync, IgnitionSyncBase, IgnitionSyncBaseSpec
from stoker.api.kinds.stoker import Stoker
from stoker.api.meta import NamespacedRef
from stoker.api.to_intent import NO_DEFAULTS, SettledResource, base_ref, intent_for, merge_spec
from stoker.api.to_intent.inheritance import installation_defaults
from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.reasons import Reason

GIT = {"repo": "https://git.example.net/plant.git", "ref": "main"}
KEY = {"name": "gw-key", "key": "apiKey"}
GATEWAY = {"apiKeySecretRef": KEY}


def child(spec: Mapping[str, object], namespace: str = "plant") -> IgnitionSync:
    document = {
        "metadata": {"name": "sync", "namespace": namespace},
        "spec": {"git": GIT, "inheritsFrom": {"name": "base", "namespace": "shared"}, **spec},
    }
    return msgspec.convert(document, IgnitionSync)


def base(
    spec: Mapping[str, object], allowed: str | None = "*", namespace: str = "shared"
) -> IgnitionSyncBase:
    annotations = {} if allowed is None else {"sync.ignition.io/allowed-namespaces": allowed}
    document = {
        "metadata": {"name": "base", "namespace": namespace, "annotations": annotations},
        "spec": {"gateway": GATEWAY, **spec},
    }
    return msgspec.convert(document, IgnitionSyncBase)


def merged(
    own: Mapping[str, object],
    inherited: Mapping[str, object],
    defaults: IgnitionSyncBaseSpec = NO_DEFAULTS,
) -> dict[str, object]:
    known = merge_spec(child(own), base=base(inherited), defaults=defaults)
    wire: dict[str, object] = msgspec.json.decode(msgspec.json.encode(known.resource.spec))
    return wire


def test_each_layer_fills_what_the_one_before_left_out() -> None:
    defaults = installation_defaults(
        {"polling": {"interval": "3s", "enabled": False}, "drift": {"mode": "restore"}}
    )
    spec = merge_spec(
        child({"polling": {"interval": "1s"}}),
        base=base({"polling": {"interval": "2s"}, "drift": {"interval": "20s"}}),
        defaults=defaults,
    ).resource.spec
    assert spec.polling is not None
    assert (spec.polling.interval, spec.polling.enabled) == ("1s", False)
    assert spec.drift is not None
    assert (spec.drift.interval, spec.drift.mode) == ("20s", "restore")
    assert spec.webhook is not None
    assert spec.webhook.port == 8443  # not set: built in


def test_lists_are_joined_with_the_own_entries_last() -> None:
    spec = merged(
        {"additionalFiles": [{"source": "site1.json", "dest": "site1.json"}], "excludePatterns": ["b", "c"]},
        {"additionalFiles": [{"source": "brand.json", "dest": "brand.json"}], "excludePatterns": ["a", "b"]},
    )
    files = spec["additionalFiles"]
    assert isinstance(files, list)
    assert [one["source"] for one in files] == ["brand.json", "site1.json"]
    assert spec["excludePatterns"] == ["a", "b", "c"]


def test_built_in_lists_only_replace_lists_that_were_not_set() -> None:
    assert merged({"excludePatterns": ["x"]}, {})["excludePatterns"] == ["x"]
    assert merged({"excludePatterns": []}, {})["excludePatterns"] == []
    assert merged({}, {})["excludePatterns"] == ["**/.git/", "**/.gitkeep", "**/.resources/**"]


def test_a_switch_that_is_off_wins_over_one_that_is_on() -> None:
    shared = {"scripts": {"enabled": True, "source": "s", "destPath": "d"}}
    spec = merged({"shared": {"scripts": {"enabled": False}}}, {"shared": shared})
    assert spec["shared"] == {"scripts": {"enabled": False, "source": "s", "destPath": "d"}}


def test_an_own_login_replaces_the_inherited_one_whole() -> None:
    ref = {"name": "n", "key": "k"}
    spec = merged(
        {"git": {**GIT, "auth": {"token": {"secretRef": ref}}}},
        {"git": {"auth": {"sshKey": {"secretRef": ref}}, "proxy": "http://proxy:3128"}},
    )
    git = spec["git"]
    assert isinstance(git, dict)
    assert git["auth"] == {"token": {"secretRef": ref}}
    assert git["proxy"] == "http://proxy:3128"


def test_an_own_login_does_not_drop_the_signatures_that_the_base_demands() -> None:
    ref = {"name": "n", "key": "k"}
    known = merge_spec(
        child({"git": {**GIT, "auth": {"token": {"secretRef": ref}}}}),
        base=base({"git": {"auth": {"gpgKey": {"secretRef": {"name": "gpg", "key": "publicKey"}}}}}),
    )
    signatures = intent_for(known).source.signatures
    assert signatures.mode == "commit"
    assert signatures.gpg_keys is not None
    assert signatures.gpg_keys.name == "gpg"


def test_a_forge_of_another_type_does_not_keep_the_inherited_address() -> None:
    spec = merged(
        {"bidirectional": {"forge": {"type": "github"}}},
        {"bidirectional": {"forge": {"type": "gitea", "url": "https://git.example.net"}}},
    )
    back = spec["bidirectional"]
    assert isinstance(back, dict)
    assert back["forge"] == {"type": "github"}


def test_aliases_in_different_layers_mean_the_same_field() -> None:
    spec = merged({"webhookNamespaces": ["plant"]}, {"webhook": {"allowedNamespaces": ["lab"]}})
    webhook = spec["webhook"]
    assert isinstance(webhook, dict)
    assert webhook["allowedNamespaces"] == ["lab", "plant"]
    assert "webhookNamespaces" not in spec


def test_the_outcome_inherits_nothing_and_settles_to_itself() -> None:
    known = merge_spec(child({"shared": {"udts": {"source": "u"}}}), base=base({"excludePatterns": ["a"]}))
    assert known.resource.spec.inherits_from is None
    assert merge_spec(known.resource) == SettledResource(known.resource)


# --- storage, which asks for a volume just by being there --------------------------------------------------

CHART_STORAGE = {"storage": {"storageClassName": "efs-sc", "size": "3Gi"}}


def test_the_charts_storage_alone_asks_for_no_volume() -> None:
    assert "storage" not in merged({}, {}, installation_defaults(CHART_STORAGE))


@pytest.mark.parametrize(("own", "inherited"), [({"storage": {}}, {}), ({}, {"storage": {}})])
def test_a_volume_that_was_asked_for_takes_the_charts_class_and_size(
    own: Mapping[str, object], inherited: Mapping[str, object]
) -> None:
    spec = merged(own, inherited, installation_defaults(CHART_STORAGE))
    assert spec["storage"] == {"storageClassName": "efs-sc", "size": "3Gi", "accessMode": "ReadWriteMany"}


# --- what is required is required of the outcome -----------------------------------------------------------


def test_what_the_base_supplies_need_not_be_in_the_resource() -> None:
    spec = merge_spec(child({}), base=base({})).resource.spec
    assert spec.gateway is not None
    assert spec.gateway.api_key_secret_ref is not None


def test_a_field_without_a_value_is_named() -> None:
    lonely = msgspec.convert(
        {"metadata": {"name": "sync", "namespace": "plant"}, "spec": {"git": GIT, "gateway": {}}},
        IgnitionSync,
    )
    with pytest.raises(InvalidValue) as refusal:
        merge_spec(lonely)
    assert refusal.value.reason is Reason.INVALID_SPEC
    assert "gateway.apiKeySecretRef must be given unless gateway.filesOnly is true" in refusal.value.message


def test_the_installation_may_supply_it_too() -> None:
    lonely = msgspec.convert(
        {"metadata": {"name": "sync", "namespace": "plant"}, "spec": {"git": GIT}}, IgnitionSync
    )
    known = merge_spec(lonely, defaults=installation_defaults({"gateway": GATEWAY}))
    assert intent_for(known).policies.access.api_key is not None


def test_rules_hold_for_the_outcome_of_the_merge() -> None:
    ca = {"name": "ca", "key": "ca.crt"}
    with pytest.raises(InvalidValue, match="insecureSkipVerify and caSecretRef exclude each other"):
        merge_spec(
            child({"gateway": {"insecureSkipVerify": True}}),
            base=base({"gateway": {**GATEWAY, "caSecretRef": ca}}),
        )


def test_lists_that_grow_too_long_by_joining_are_refused() -> None:
    with pytest.raises(InvalidValue, match="excludePatterns"):
        merge_spec(
            child({"excludePatterns": [f"a{n}" for n in range(200)]}),
            base=base({"excludePatterns": [f"b{n}" for n in range(200)]}),
        )


def test_many_problems_are_not_listed_without_end() -> None:
    spec = {"git": GIT, "gateway": {"filesOnly": True}, "excludePatterns": ["a\nb"] * 9}
    broken = msgspec.convert({"metadata": {"name": "sync"}, "spec": spec}, Stoker)
    with pytest.raises(InvalidValue, match="and 4 more"):
        merge_spec(broken)


# --- who may use a base ------------------------------------------------------------------------------------


def test_the_base_to_look_up_has_the_namespace_of_the_resource_unless_it_names_one() -> None:
    own = msgspec.convert(
        {
            "metadata": {"name": "sync", "namespace": "plant"},
            "spec": {"git": GIT, "inheritsFrom": {"name": "base"}},
        },
        IgnitionSync,
    )
    assert base_ref(own) == NamespacedRef(name="base", namespace="plant")
    assert base_ref(child({})) == NamespacedRef(name="base", namespace="shared")


def test_a_base_that_does_not_exist_stalls_the_resource() -> None:
    with pytest.raises(Stalled, match=r"IgnitionSyncBase shared/base does not exist$") as refusal:
        merge_spec(child({}, namespace="shared"))
    assert refusal.value.reason is Reason.BASE_NOT_FOUND


def test_a_missing_base_of_another_namespace_gets_the_answer_of_a_forbidden_one() -> None:
    answers = set()
    for there in (None, base({}, "lab"), base({}, None)):
        with pytest.raises(Stalled) as refusal:
            merge_spec(child({}), base=there)
        answers.add((refusal.value.reason, refusal.value.message))
    assert len(answers) == 1


@pytest.mark.parametrize("allowed", ["plant", "lab, plant", "*"])
def test_a_base_may_be_used_from_the_namespaces_that_it_lists(allowed: str) -> None:
    assert merge_spec(child({}), base=base({}, allowed)).notices == ()


@pytest.mark.parametrize("allowed", ["lab", "", "plan", "plant-2", None])
def test_a_base_may_not_be_used_from_other_namespaces(allowed: str | None) -> None:
    with pytest.raises(Stalled, match="does not list namespace plant") as refusal:
        merge_spec(child({}), base=base({}, allowed))
    assert refusal.value.reason is Reason.BASE_NOT_ALLOWED


@pytest.mark.parametrize("allowed", ["lab", None])
def test_in_its_own_namespace_a_base_may_always_be_used(allowed: str | None) -> None:
    own = child({}, namespace="shared")
    assert merge_spec(own, base=base({}, allowed)).notices == ()


def test_a_base_that_was_not_named_is_not_used() -> None:
    own = msgspec.convert(
        {"metadata": {"name": "sync", "namespace": "plant"}, "spec": {"git": GIT, "gateway": GATEWAY}},
        IgnitionSync,
    )
    assert merge_spec(own, base=base({"excludePatterns": ["x"]}, allowed="lab")) == merge_spec(own)


# --- the installation --------------------------------------------------------------------------------------


def test_a_misspelt_default_stops_the_start() -> None:
    with pytest.raises(InvalidValue, match=r"defaults: unknown field polling\.intervall, storag") as refusal:
        installation_defaults({"polling": {"intervall": "1s"}, "storag": {}})
    assert refusal.value.reason is Reason.MISCONFIGURED


def test_a_default_must_be_as_valid_as_a_field() -> None:
    with pytest.raises(InvalidValue, match="must be a duration"):
        installation_defaults({"polling": {"interval": "soon"}})


def test_defaults_that_a_kind_does_not_have_are_not_for_it() -> None:
    stoker = msgspec.convert({"metadata": {"name": "s", "namespace": "plant"}, "spec": {"git": GIT}}, Stoker)
    defaults = installation_defaults(
        {**CHART_STORAGE, "shared": {"udts": {"source": "u"}}, "orphans": "owned"}
    )
    assert merge_spec(stoker, defaults=defaults).resource.spec.orphans == "owned"
