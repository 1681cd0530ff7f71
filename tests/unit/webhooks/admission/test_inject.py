"""From a pod and its resource to a patch, or to a reason: each rule of injection as a sentence."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.api.kinds.ignitionsync import IgnitionSync
from stoker.api.kinds.stoker import Stoker
from stoker.api.manifests.codec import from_wire
from stoker.api.to_intent import intent_for, merge_spec
from stoker.api.to_intent.annotations.annotations import pod_settings
from stoker.domain.errors import Stalled
from stoker.domain.intent.intent import ResourceIntent
from stoker.domain.intent.source import SecretKey
from stoker.domain.pods.images import ImageRef
from stoker.domain.pods.injection import AgentInstallation, build_sidecar
from stoker.domain.reasons import Reason
from stoker.webhooks.admission.inject import Injection, InjectionRules, asks_for_agent, build_injection
from stoker.webhooks.admission.pod_model import read_pod
from stoker_testkit.admission.json_patch import patched

DATA = Path(__file__).parents[3] / "data" / "pods"
RULES = InjectionRules(AgentInstallation(ImageRef.parse("registry.test/stoker:1.0")))

GIT = {"repo": "https://git.example.net/plant.git", "ref": "main"}
NO_GATEWAY = {"filesOnly": True}
TMP = "/tmp"  # noqa: S108 - of the pod
KEY = {"apiKeySecretRef": {"name": "gateway-key", "key": "apiKey"}}


def ref(name: str, key: str) -> dict[str, Any]:
    return {"secretRef": {"name": name, "key": key}}


def stoker(**spec: Any) -> ResourceIntent:
    wire = {"metadata": {"name": "plant", "namespace": "site"}, "spec": {"git": GIT, **spec}}
    return intent_for(merge_spec(from_wire(wire, Stoker)))


def ignition_sync(**spec: Any) -> ResourceIntent:
    wire = {
        "metadata": {"name": "public-demo", "namespace": "site"},
        "spec": {"git": GIT, "gateway": NO_GATEWAY, **spec},
    }
    return intent_for(merge_spec(from_wire(wire, IgnitionSync)))


def pod(**annotations: str) -> dict[str, Any]:
    """The least that can be injected."""
    return {
        "metadata": {
            "name": "gateway-0",
            "annotations": {
                "stoker.io/inject": "true",
                "stoker.io/service-path": "services/filler",
                **{f"stoker.io/{key.replace('_', '-')}": value for key, value in annotations.items()},
            },
        },
        "spec": {
            "containers": [
                {"name": "gateway", "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
            ],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    }


def injection(
    document: Mapping[str, Any], resource: ResourceIntent, rules: InjectionRules = RULES
) -> Injection:
    found = read_pod(json.dumps(document).encode())
    facts = found.facts("site")
    assert asks_for_agent(found, facts)
    return build_injection(found, facts, pod_settings(facts), resource, rules)


def injected(
    document: Mapping[str, Any], resource: ResourceIntent, rules: InjectionRules = RULES
) -> dict[str, Any]:
    return patched(document, injection(document, resource, rules).patch)


def agent_of(document: Mapping[str, Any]) -> dict[str, Any]:
    spec = document["spec"]
    everyone = [*spec.get("initContainers", []), *spec["containers"]]
    (agent,) = [one for one in everyone if one["name"] == "stoker-agent"]
    found: dict[str, Any] = agent
    return found


def volumes_of(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in document["spec"]["volumes"]}


def mounts_of(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["mountPath"]: one for one in agent_of(document)["volumeMounts"]}


def refusal(document: Mapping[str, Any], resource: ResourceIntent, rules: InjectionRules = RULES) -> Stalled:
    with pytest.raises(Stalled) as raised:
        injection(document, resource, rules)
    return raised.value


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        (
            "gateway",
            stoker(
                git={
                    **GIT,
                    "repo": "git@git.example.net:plant.git",
                    "auth": {
                        "sshKey": {
                            **ref("git-login", "ssh-privatekey"),
                            "knownHostsSecretRef": {"name": "git-login", "key": "known_hosts"},
                        }
                    },
                },
                gateway={**KEY, "caSecretRef": {"name": "gateway-ca", "key": "ca.crt"}},
            ),
        ),
        ("frontend", ignition_sync(agent={"sidecarMode": "container", "image": {"tag": "1.1"}})),
    ],
)
def test_what_a_chart_makes_comes_out_as_expected(name: str, resource: ResourceIntent) -> None:
    document = json.loads((DATA / f"{name}.json").read_text())
    expected = json.loads((DATA / f"{name}.injected.json").read_text())
    assert injected(document, resource) == expected


@pytest.mark.parametrize(
    "annotations",
    [{}, {"stoker.io/inject": "false"}, {"ignition-sync.io/inject": "false"}, {"inject": "true"}],
)
def test_a_pod_that_does_not_ask_is_left_alone(annotations: dict[str, str]) -> None:
    document = {**pod(), "metadata": {"name": "x", "annotations": annotations}}
    found = read_pod(json.dumps(document).encode())
    assert not asks_for_agent(found, found.facts("site"))


@pytest.mark.parametrize("name", ["stoker-agent", "sync-agent"])
@pytest.mark.parametrize("where", ["initContainers", "containers"])
def test_a_pod_that_has_an_agent_is_left_alone(name: str, where: str) -> None:
    document = pod()
    document["spec"].setdefault(where, []).append({"name": name})
    found = read_pod(json.dumps(document).encode())
    assert not asks_for_agent(found, found.facts("site"))


def test_what_was_injected_is_not_injected_again() -> None:
    document = injected(pod(), stoker())
    found = read_pod(json.dumps(document).encode())
    assert not asks_for_agent(found, found.facts("site"))


def test_only_entries_of_our_own_are_added() -> None:
    document = json.loads((DATA / "gateway.json").read_text())
    document["spec"]["somethingNew"] = {"deep": [1, {"er": None}]}
    document["spec"]["containers"][0]["unknown"] = "kept"
    after = injected(document, stoker(gateway=KEY))
    for place in ("containers", "initContainers", "volumes"):
        kept = len(document["spec"][place])
        assert after["spec"][place][:kept] == document["spec"][place]
        del after["spec"][place][kept:]
    ours = {"stoker.io/cr-name", "stoker.io/cr-kind", "stoker.io/injected", "stoker.io/gateway-name"}
    for place in ("annotations", "labels"):
        for key in ours - set(document["metadata"][place]):
            after["metadata"][place].pop(key, None)
    assert after == document


def test_the_sidecar_comes_after_the_charts_own_init_containers() -> None:
    document = json.loads((DATA / "gateway.json").read_text())
    names = [one["name"] for one in injected(document, stoker())["spec"]["initContainers"]]
    assert names == ["preconfigure", "stoker-agent"]
    assert agent_of(injected(document, stoker()))["restartPolicy"] == "Always"


def test_without_native_sidecars_an_init_container_does_the_first_sync() -> None:
    after = injected(pod(), stoker(agent={"sidecarMode": "container"}))
    (first,) = after["spec"]["initContainers"]
    agent = after["spec"]["containers"][-1]
    assert (first["name"], first["args"]) == ("stoker-initial-sync", ["agent", "--initial-sync"])
    assert (agent["name"], agent["args"]) == ("stoker-agent", ["agent"])
    assert not {"restartPolicy", "startupProbe", "livenessProbe", "readinessProbe", "ports"} & set(first)
    assert "restartPolicy" not in agent
    for same in ("image", "env", "volumeMounts", "securityContext", "resources"):
        assert first[same] == agent[same]


def test_variables_name_pod_resource_and_gateway() -> None:
    (agent,) = injected(pod(gateway_name="filler $(POD_NAME)"), stoker())["spec"]["initContainers"]
    fields = {
        one["name"]: one.get("value") or one["valueFrom"]["fieldRef"]["fieldPath"] for one in agent["env"]
    }
    assert fields == {
        "POD_NAME": "metadata.name",
        "POD_NAMESPACE": "metadata.namespace",
        "CR_NAME": "plant",
        "CR_KIND": "Stoker",
        "GATEWAY_NAME": "filler $$(POD_NAME)",
        "TMPDIR": TMP,
    }


def test_a_pod_without_a_name_calls_its_gateway_after_itself() -> None:
    document = pod()
    document["metadata"] = {"generateName": "gateway-", "annotations": document["metadata"]["annotations"]}
    after = injected(document, stoker())
    (name,) = [one for one in agent_of(after)["env"] if one["name"] == "GATEWAY_NAME"]
    assert name["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert "stoker.io/gateway-name" not in after["metadata"]["annotations"]


def test_the_pod_is_stamped_with_resource_kind_gateway_and_digest() -> None:
    document = pod()
    document["metadata"]["labels"] = {"app.kubernetes.io/name": "ignition"}
    resource = stoker()
    after = injected(document, resource)["metadata"]
    assert after["labels"] == {
        "app.kubernetes.io/name": "ignition",
        "stoker.io/cr-name": "plant",
        "stoker.io/cr-kind": "Stoker",
    }
    digest = build_sidecar(resource, RULES.installation).digest
    assert {
        key: after["annotations"][f"stoker.io/{key}"] for key in ("cr-name", "cr-kind", "gateway-name")
    } == {
        "cr-name": "plant",
        "cr-kind": "Stoker",
        "gateway-name": "ignition",
    }
    assert after["annotations"]["stoker.io/injected"] == digest


def test_a_pod_without_labels_and_volumes_lists_gets_them() -> None:
    document = pod(data_volume="data")
    del document["spec"]["containers"][0]["volumeMounts"]
    document["spec"]["initContainers"] = None
    after = injected(document, stoker())
    assert after["metadata"]["labels"]["stoker.io/cr-name"] == "plant"
    assert len(after["spec"]["initContainers"]) == 1


def test_probes_ports_and_places_are_those_of_the_agent() -> None:
    agent = agent_of(injected(pod(), stoker()))
    assert agent["startupProbe"] == {
        "httpGet": {"path": "/startupz", "port": 8082},
        "periodSeconds": 10,
        "failureThreshold": 33,
    }
    assert agent["livenessProbe"] == {"httpGet": {"path": "/healthz", "port": 8082}, "periodSeconds": 10}
    assert agent["readinessProbe"] == {"httpGet": {"path": "/readyz", "port": 8082}, "periodSeconds": 5}
    assert {one["name"]: one["containerPort"] for one in agent["ports"]} == {
        "stoker-health": 8082,
        "stoker-metrics": 8083,
    }


@pytest.mark.parametrize(("budget", "looks"), [("1s", 33), ("5m", 33), ("301s", 34), ("1h", 363)])
def test_the_kubelet_is_more_patient_than_the_startup_budget(budget: str, looks: int) -> None:
    agent = agent_of(injected(pod(), stoker(agent={"startupBudget": budget})))
    assert agent["startupProbe"]["failureThreshold"] == looks


def test_volumes_that_every_agent_has() -> None:
    after = injected(pod(), stoker())
    assert set(mounts_of(after)) == {
        "/repo",
        TMP,
        "/ignition-data",
        "/etc/podinfo",
        "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    volumes = volumes_of(after)
    assert volumes["stoker-repo"]["emptyDir"] == {"sizeLimit": "2Gi"}
    assert volumes["stoker-tmp"]["emptyDir"] == {"sizeLimit": "50Mi"}
    paths = [one["path"] for one in volumes["pod-annotations"]["downwardAPI"]["items"]]
    assert paths == ["annotations", "labels", "name"]
    sources = volumes["stoker-token"]["projected"]["sources"]
    assert [*sources[0], *sources[1], *sources[2]] == ["serviceAccountToken", "configMap", "downwardAPI"]


def test_the_limit_of_the_clone_can_be_changed_and_dropped() -> None:
    for size, expected in (("10Gi", {"sizeLimit": "10Gi"}), ("", {})):
        rules = InjectionRules(AgentInstallation(ImageRef.parse("stoker:1"), repo_size=size))
        assert volumes_of(injected(pod(), stoker(), rules))["stoker-repo"]["emptyDir"] == expected


LOGINS: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "ssh": ({"sshKey": ref("login", "id")}, "login", ["id"]),
    "token": ({"token": ref("login", "pat")}, "login", ["pat"]),
    "basic": ({"basic": {"secretRef": {"name": "login"}}}, "login", ["password", "username"]),
    "app": (
        {
            "githubApp": {
                "appId": 1,
                "installationId": 2,
                "privateKeySecretRef": {"name": "app", "key": "pem"},
            }
        },
        "stoker-git-token-plant",
        ["token"],
    ),
}


@pytest.mark.parametrize("kind", LOGINS)
def test_of_a_login_only_the_keys_that_git_needs_are_mounted(kind: str) -> None:
    auth, secret, keys = LOGINS[kind]
    repo = "git@git.example.net:plant.git" if kind == "ssh" else GIT["repo"]
    after = injected(pod(), stoker(git={**GIT, "repo": repo, "auth": auth}))
    volume = volumes_of(after)["stoker-git-credentials"]["secret"]
    assert (volume["secretName"], [one["key"] for one in volume["items"]]) == (secret, keys)
    assert volume["optional"] is True
    assert mounts_of(after)["/etc/stoker/git-credentials"]["readOnly"] is True
    assert "pem" not in json.dumps(after), "the key of an app stays with the controller"


def test_every_other_secret_is_mounted_by_name_and_key_and_is_optional() -> None:
    resource = stoker(
        git={
            **GIT,
            "caSecretRef": {"name": "trust", "key": "git.pem"},
            "verify": {"mode": "commit", "allowedSignersSecretRef": {"name": "trust", "key": "signers"}},
        },
        gateway={**KEY, "caSecretRef": {"name": "gateway-ca", "key": "ca.crt"}},
    )
    after = injected(pod(), resource)
    sources = volumes_of(after)["stoker-secrets"]["projected"]["sources"]
    paths = {item["path"] for one in sources for item in one["secret"]["items"]}
    assert paths == {"trust/git.pem", "trust/signers", "gateway-ca/ca.crt"}
    assert all(one["secret"]["optional"] for one in sources)
    assert "/etc/stoker/secrets" in mounts_of(after)
    assert volumes_of(after)["stoker-api-key"]["secret"] == {
        "secretName": "gateway-key",
        "items": [{"key": "apiKey", "path": "apiKey"}],
        "defaultMode": 0o444,
        "optional": True,
    }


def test_with_a_shared_volume_the_agent_reads_it_and_needs_no_login() -> None:
    secret = {"name": "login", "key": "pat"}
    git = {
        **GIT,
        "auth": {"token": {"secretRef": secret}},
        "caSecretRef": {"name": "trust", "key": "git.pem"},
    }
    resource = ignition_sync(git=git, storage={"size": "5Gi"})
    alone = injected(pod(), resource)
    assert "/shared-repo" not in mounts_of(alone), "this installation makes no volumes"
    assert "/etc/stoker/git-credentials" in mounts_of(alone)
    rules = InjectionRules(AgentInstallation(ImageRef.parse("registry.test/stoker:1.0"), shared_volumes=True))
    after = injected(pod(), resource, rules)
    assert volumes_of(after)["stoker-shared-repo"]["persistentVolumeClaim"] == {
        "claimName": "ignition-sync-repo-public-demo",
        "readOnly": True,
    }
    assert mounts_of(after)["/shared-repo"]["readOnly"] is True
    assert not {"/etc/stoker/git-credentials", "/etc/stoker/secrets"} & set(mounts_of(after))
    assert "/shared-repo" not in mounts_of(injected(pod(), ignition_sync(git=git), rules))


def test_a_key_for_metadata_is_mounted_only_where_the_installation_has_one() -> None:
    assert "/etc/stoker/metadata-key" not in mounts_of(injected(pod(), stoker()))
    rules = InjectionRules(
        AgentInstallation(ImageRef.parse("stoker:1"), metadata_key=SecretKey("signing", "key"))
    )
    after = injected(pod(), stoker(), rules)
    assert volumes_of(after)["stoker-metadata-key"]["secret"]["secretName"] == "signing"


def test_no_variable_and_no_argument_shows_where_secrets_are() -> None:
    agent = agent_of(injected(pod(), stoker(gateway=KEY)))
    assert "/etc/stoker" not in json.dumps([agent["env"], agent["args"]])


def test_names_that_the_pod_uses_already_are_not_used_again() -> None:
    document = pod()
    document["spec"]["volumes"] += [{"name": name} for name in ("stoker-repo", "stoker-repo-2", "stoker-tmp")]
    after = injected(document, stoker())
    names = [one["name"] for one in after["spec"]["volumes"]]
    assert len(names) == len(set(names))
    assert mounts_of(after)["/repo"]["name"] == "stoker-repo-3"
    assert mounts_of(after)[TMP]["name"] == "stoker-tmp-2"


def contexts(container: Mapping[str, Any] | None, whole: Mapping[str, Any] | None) -> dict[str, Any]:
    document = pod()
    document["spec"]["containers"][0]["securityContext"] = container
    document["spec"]["securityContext"] = whole
    found: dict[str, Any] = agent_of(injected(document, stoker()))["securityContext"]
    return found


@pytest.mark.parametrize(
    ("container", "whole", "user", "group"),
    [
        (None, None, 2003, 2003),
        ({}, {}, 2003, 2003),
        (None, {"runAsUser": 1000, "runAsGroup": 1001}, 1000, 1001),
        ({"runAsUser": 5}, {"runAsUser": 1000, "runAsGroup": 1001}, 5, 1001),
        ({"runAsUser": 5, "runAsGroup": 6}, {"runAsUser": 1000}, 5, 6),
        ({"runAsUser": 1000640000}, None, 1000640000, 2003),
    ],
)
def test_the_agent_runs_as_the_gateways_user(
    container: Mapping[str, Any] | None, whole: Mapping[str, Any] | None, user: int, group: int
) -> None:
    context = contexts(container, whole)
    assert (context["runAsUser"], context["runAsGroup"], context["runAsNonRoot"]) == (user, group, True)


def test_beside_a_gateway_that_is_root_the_agent_is_root_with_a_warning() -> None:
    context = contexts({"runAsUser": 0}, None)
    assert (context["runAsUser"], context["runAsGroup"], context["runAsNonRoot"]) == (0, 0, False)
    document = pod()
    document["spec"]["securityContext"] = {"runAsUser": 0}
    assert [one.reason for one in injection(document, stoker()).notices] == [Reason.RUNS_AS_ROOT]


SNAPSHOTS = {"enabled": True, "storage": {"type": "pvc", "pvc": {"claimName": "copies"}}}


def snapshot_mounts(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in agent_of(document)["volumeMounts"] if one["mountPath"] == "/snapshots"]


def test_a_claim_for_snapshots_is_mounted_into_the_agent_alone() -> None:
    made = injected(pod(), stoker(snapshots=SNAPSHOTS))
    assert snapshot_mounts(made) == [{"name": "stoker-snapshots", "mountPath": "/snapshots"}]
    claims = {one["name"]: one.get("persistentVolumeClaim") for one in made["spec"]["volumes"]}
    assert claims["stoker-snapshots"] == {"claimName": "copies"}
    assert "stoker-snapshots" not in json.dumps(made["spec"]["containers"])
    assert snapshot_mounts(injected(pod(), stoker(snapshots={**SNAPSHOTS, "enabled": False}))) == []


def test_a_volume_of_the_pod_for_snapshots_wins_over_a_claim() -> None:
    document = pod(snapshot_volume="copies")
    document["spec"]["volumes"].append({"name": "copies", "emptyDir": {}})
    made = injected(document, stoker(snapshots=SNAPSHOTS))
    assert snapshot_mounts(made) == [{"name": "copies", "mountPath": "/snapshots"}]
    assert "stoker-snapshots" not in json.dumps(made)


@pytest.mark.parametrize("volume", [None, {"name": "copies", "configMap": {"name": "x"}}])
def test_a_volume_for_snapshots_that_cannot_be_used_is_refused(volume: dict[str, Any] | None) -> None:
    document = pod(snapshot_volume="copies")
    document["spec"]["volumes"] += [volume] if volume else []
    with pytest.raises(Stalled, match="snapshot-volume names volume 'copies'") as raised:
        injection(document, stoker())
    assert raised.value.reason is Reason.DATA_VOLUME_NOT_FOUND


def test_what_opens_a_bucket_is_mounted_and_pods_without_one_are_not_outdated() -> None:
    s3 = {"bucket": "b", "credentialsSecretRef": {"name": "bucket-login"}}
    made = injected(pod(), stoker(snapshots={"enabled": True, "storage": {"type": "s3", "s3": s3}}))
    (secrets,) = [one for one in made["spec"]["volumes"] if one["name"] == "stoker-secrets"]
    (source,) = [one["secret"] for one in secrets["projected"]["sources"]]
    assert (source["name"], source["optional"]) == ("bucket-login", True)
    assert [one["key"] for one in source["items"]] == ["accessKeyId", "secretAccessKey", "sessionToken"]
    plain, claimed = (injection(pod(), stoker(**spec)).digest for spec in ({}, {"snapshots": SNAPSHOTS}))
    assert plain == injection(pod(), stoker(snapshots={"enabled": True})).digest
    assert plain != claimed


def test_the_agent_may_do_nothing_that_it_need_not() -> None:
    context = contexts({"seLinuxOptions": {"level": "s0:c1"}}, None)
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert context["seLinuxOptions"] == {"level": "s0:c1"}


@pytest.mark.parametrize(
    ("spec", "chosen", "image"),
    [
        ({}, "", "registry.test/stoker:1.0"),
        ({"repository": "mirror:5000/stoker"}, "", "mirror:5000/stoker:1.0"),
        ({"tag": "2"}, "", "registry.test/stoker:2"),
        ({"tag": "2", "digest": f"sha256:{'a' * 64}"}, "", f"registry.test/stoker@sha256:{'a' * 64}"),
        ({"repository": "m/x", "tag": "3"}, "", "m/x:3"),
        ({"repository": "m/x", "tag": "3"}, "own/agent:9", "own/agent:9"),
    ],
)
def test_the_image_is_the_pods_the_resources_or_our_own(
    spec: dict[str, str], chosen: str, image: str
) -> None:
    document = pod(**({"agent_image": chosen} if chosen else {}))
    allowed = ("mirror:5000/", "m/", "own/agent")
    rules = InjectionRules(replace(RULES.installation, image_repositories=allowed))
    assert agent_of(injected(document, stoker(agent={"image": spec}), rules))["image"] == image


def test_without_a_tag_of_its_own_a_mirror_has_the_digest_of_the_original() -> None:
    own = ImageRef.parse(f"registry.test/stoker@sha256:{'b' * 64}")
    rules = InjectionRules(AgentInstallation(own, image_repositories=("mirror/stoker",)))
    after = injected(pod(), stoker(agent={"image": {"repository": "mirror/stoker"}}), rules)
    assert agent_of(after)["image"] == f"mirror/stoker@sha256:{'b' * 64}"


@pytest.mark.parametrize("repository", ["evil/stoker", "mirror/stoker-evil", "mirror/stoker/x", "plan/b"])
def test_an_image_of_another_repository_is_refused_from_a_resource_and_from_a_pod(repository: str) -> None:
    allowed = ("mirror/stoker", "plant/")
    rules = InjectionRules(
        AgentInstallation(ImageRef.parse("registry.test/stoker:1.0"), image_repositories=allowed)
    )
    wanted = stoker(agent={"image": {"repository": repository}})
    assert refusal(pod(), wanted, rules).reason is Reason.IMAGE_NOT_ALLOWED
    assert refusal(pod(agent_image=f"{repository}:1"), stoker(), rules).reason is Reason.IMAGE_NOT_ALLOWED
    below = stoker(agent={"image": {"repository": "plant/any/stoker"}})
    assert agent_of(injected(pod(), below, rules))["image"] == "plant/any/stoker:1.0"


def test_where_digests_are_demanded_a_tag_is_refused() -> None:
    rules = InjectionRules(AgentInstallation(ImageRef.parse("registry.test/stoker:1.0"), require_digest=True))
    assert refusal(pod(), stoker(), rules).reason is Reason.IMAGE_NOT_PINNED
    pinned = stoker(agent={"image": {"digest": f"sha256:{'c' * 64}"}})
    assert agent_of(injected(pod(), pinned, rules))["image"].endswith("c" * 64)


def test_resources_and_pull_policy_are_the_resources() -> None:
    agent = agent_of(
        injected(
            pod(),
            stoker(
                agent={
                    "image": {"pullPolicy": "Always"},
                    "resources": {"requests": {"cpu": "10m"}, "limits": {"memory": "1Gi"}},
                }
            ),
        )
    )
    assert agent["imagePullPolicy"] == "Always"
    assert agent["resources"] == {
        "requests": {"cpu": "10m", "memory": "64Mi"},
        "limits": {"cpu": "200m", "memory": "1Gi"},
    }
    usual = agent_of(injected(pod(), stoker()))
    assert usual["imagePullPolicy"] == "IfNotPresent"
    assert usual["resources"]["limits"] == {"cpu": "200m", "memory": "256Mi"}


def test_allowed_namespaces_are_kept_to() -> None:
    assert (
        refusal(pod(), stoker(webhook={"allowedNamespaces": ["other"]})).reason
        is Reason.NAMESPACE_NOT_ALLOWED
    )
    assert refusal(pod(), stoker(webhookNamespaces=["other"])).reason is Reason.NAMESPACE_NOT_ALLOWED
    assert injected(pod(), stoker(webhook={"allowedNamespaces": ["other", "site"]}))
    assert injected(pod(), stoker(webhook={"allowedNamespaces": []}))


def test_only_selected_pods_get_an_agent_where_there_is_a_selector() -> None:
    rules = InjectionRules(RULES.installation, {"app": "ignition", "tier": None})
    assert refusal(pod(), stoker(), rules).reason is Reason.POD_NOT_SELECTED
    document = pod()
    document["metadata"]["labels"] = {"app": "ignition", "tier": ""}
    assert injected(document, stoker(), rules)
    document["metadata"]["labels"] = {"app": "other", "tier": ""}
    assert "app=ignition" in refusal(document, stoker(), rules).message


def test_a_pod_that_says_nothing_about_its_files_is_refused() -> None:
    document = pod()
    del document["metadata"]["annotations"]["stoker.io/service-path"]
    assert refusal(document, stoker()).reason is Reason.NO_MAPPINGS


@pytest.mark.parametrize("path", ["/etc", "../x", "a/../../b", "a\\b"])
def test_a_service_path_that_leads_elsewhere_is_refused(path: str) -> None:
    found = refusal(pod(service_path=path), stoker())
    assert found.reason is Reason.INVALID_VALUE
    assert "stoker.io/service-path" in found.message


def test_the_repository_itself_is_a_service_path() -> None:
    assert injected(pod(service_path="."), stoker())


@pytest.mark.parametrize("port", [8082, 8083])
def test_a_port_that_is_taken_is_refused(port: int) -> None:
    document = pod()
    document["spec"]["containers"][0]["ports"] = [{"containerPort": port}]
    found = refusal(document, stoker())
    assert found.reason is Reason.PORT_IN_USE
    assert str(port) in found.message


def test_the_digest_changes_with_what_is_injected_and_with_nothing_else() -> None:
    plain = injection(pod(), stoker()).digest
    assert injection(pod(gateway_name="other", service_path="x"), stoker(paused=True)).digest == plain
    others = [
        stoker(agent={"image": {"tag": "2"}}),
        stoker(agent={"sidecarMode": "container"}),
        stoker(agent={"startupBudget": "1h"}),
        stoker(agent={"resources": {"limits": {"cpu": "1"}}}),
        stoker(gateway=KEY),
        stoker(git={**GIT, "auth": {"token": ref("login", "pat")}}),
        stoker(git={**GIT, "caSecretRef": {"name": "trust", "key": "git.pem"}}),
    ]
    digests = {injection(pod(), one).digest for one in others} | {
        injection(pod(agent_image="registry.test/stoker:9"), stoker()).digest
    }
    assert len(digests) == len(others) + 1
    assert plain not in digests


def test_nothing_of_what_goes_in_is_changed() -> None:
    document = pod()
    before = copy.deepcopy(document)
    injected(document, stoker(gateway=KEY))
    assert document == before
