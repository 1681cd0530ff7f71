"""Bad metadata of any kind: the agent reports the problem by name, keeps its files, and lives on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.domain.protocol import SyncState
from stoker.domain.reasons import Reason
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.agent_environment import SERVICE, AgentEnvironment, project
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.wait_until import eventually

FILE = "projects/filler/project.json"


class Patient:
    """An agent at its first commit, with a second one that it goes to as soon as nothing is wrong."""

    def __init__(self, plant: AgentEnvironment) -> None:
        self.plant = plant
        self.pod = plant.pod(talks=False)
        self.first = plant.commit(project("filler", 1))
        plant.publish(self.first)
        self.pod.start(plant.kubeconfig)
        plant.until_converged(self.pod, self.first)
        self.second = plant.commit(project("filler", 2))
        plant.publish(self.second, paused=True)
        self._rests = 0

    @property
    def good(self) -> dict[str, str]:
        return replace(self.plant.metadata, paused=False).data()

    def rest(self) -> None:
        """Have nothing to do, so that its next report is its answer to the next metadata."""
        self._rests += 1
        # An error stays reported until a sync succeeds, also while it is paused.
        self.plant.publish(self.first, paused=False, trigger=f"rest {self._rests}")
        self.plant.maps.until_report(reason="", synced_commit=self.first, pod=self.pod)
        self.plant.publish(self.second, paused=True)
        self.plant.maps.until_report(reason=Reason.PAUSED, pod=self.pod)

    def expect_refusal(self, data: Mapping[str, str], reason: Reason, word: str) -> None:
        """Told this, it names what is wrong, and stays where it is."""
        self.plant.maps.publish(data)
        report = self.plant.maps.until_report(
            reason=reason, error_message=lambda message: word in message, pod=self.pod
        )
        assert report.sync_status is SyncState.ERROR
        assert (report.synced_commit, self.pod.file(FILE)) == (self.first, project("filler", 1)[FILE])

    def expect_going_on(self) -> None:
        """Told well, it goes on as if nothing had been."""
        self.plant.maps.publish(self.good)
        self.plant.until_converged(self.pod, self.second)
        assert self.pod.ask("/healthz")[0] == 200
        assert not [line for line in self.pod.lines() if line.get("level") == "error"], self.pod.tail()


@pytest.fixture
def plant(
    kinds: ClusterAccess, namespace: str, git_http: GitHttpServer, tmp_path: Path
) -> Iterator[AgentEnvironment]:
    repository = Repository.create(git_http.root / "plant.git")
    with AgentEnvironment.create(kinds, namespace, tmp_path, repository, git_http.url("plant.git")) as made:
        yield made


@pytest.fixture
def patient(plant: AgentEnvironment) -> Patient:
    return Patient(plant)


COMMIT = "1" * 40
KEYS = {
    "commit": ("main", "1" * 39, "g" * 40),
    "ref": ("-x", "a..b", "a\nb"),
    "gitURL": ("--upload-pack=evil", "ext::sh -c x", "https://user:pass@host/x", "ftp://host/x"),
    "authType": ("kerberos",),
    "authSecretName": ("../other", "UPPER"),
    "apiKeySecret": ("a/b",),
    "gatewayPort": ("-1", "65536", "eighty"),
    "gatewayTLS": ("maybe",),
    "paused": ("perhaps",),
    "terminating": ("perhaps",),
    "protocolVersion": ("one",),
    "statusKeyMode": ("name",),
    "statusShards": ("[]", '{"filler": -1}', '{"filler": true}', "{"),
    "targets": (
        *("[]", "{", '{"filler": 7}', '{"filler": {}}', '{"filler": "main"}', "[" * 50_000),
        f'{{"filler": {{"commit": "{COMMIT}", "mode": "maybe"}}}}',
        f'{{"filler": {{"commit": "{COMMIT}", "plan": "x"}}}}',
    ),
    "rollback": ("{}", '{"id": 1}', f'{{"toCommit": "{COMMIT}", "toSnapshot": "x"}}', '{"toCommit": "main"}'),
    "agentSpec": (
        *("no JSON", "[]", "{}", '{"version": 1}', "[" * 50_000, '{"version": 1, "resource": {}}'),
        '{"version": 1, "resource": {"kind": "Pod"}}',
        '{"version": 1, "resource": {"kind": "Stoker", "spec": []}}',
        '{"version": "x", "resource": {}}',
    ),
}


def test_keys_of_the_map(patient: Patient) -> None:
    for key, values in KEYS.items():
        for value in values:
            patient.rest()
            patient.expect_refusal({**patient.good, key: value}, Reason.METADATA_INVALID, f"key {key}")
    patient.rest()
    patient.expect_refusal({**patient.good, "protocolVersion": "2"}, Reason.PROTOCOL_TOO_NEW, "protocol 2")
    spec = json.loads(patient.plant.spec())
    patient.rest()
    newer = json.dumps({**spec, "version": 2})
    patient.expect_refusal({**patient.good, "agentSpec": newer}, Reason.PROTOCOL_TOO_NEW, "version 2")
    spec["resource"]["metadata"]["name"] = "other"
    patient.rest()
    patient.expect_refusal({**patient.good, "agentSpec": json.dumps(spec)}, Reason.METADATA_INVALID, "/other")
    patient.expect_going_on()


ANNOTATIONS = {
    "gateway-name": ("a/b", ".hidden", "{{.Evil}}"),
    "service-path": ("../../etc", "/abs\0"),
    "sync-profile": ("No Such Name", "../x"),
    "ref-override": ("--upload-pack=evil", "a b"),
    "deployment-mode": ("../x",),
    "sync-period": ("soon", "-1", "0"),
    "tag-provider": ("a/b",),
    "tag-inheritance-strategy": ("some",),
    "redundancy-role": ("king",),
    "gateway-port": ("99999", "http"),
    "gateway-tls": ("maybe",),
    "approved-plan": ("yes",),
}


def test_annotations_of_the_pod(patient: Patient) -> None:
    pod = patient.pod
    for key, values in ANNOTATIONS.items():
        for value in values:
            patient.rest()
            before = pod.annotations.get(f"stoker.io/{key}")
            pod.annotate({key: value})
            patient.expect_refusal(patient.good, Reason.INVALID_VALUE, f"stoker.io/{key}")
            patient.plant.publish()  # paused, before it is fixed
            pod.annotate({key: before})
    for text in ("no annotation at all", 'a="b', 'stoker.io/x="\\q"'):
        patient.rest()
        pod.rewrite_podinfo({"annotations": text})
        patient.expect_refusal(patient.good, Reason.INVALID_VALUE, "line 1")
        patient.plant.publish()
        pod.annotate({})
    patient.rest()
    patient.expect_going_on()


def mapped(**changes: object) -> dict[str, object]:
    return {"mappings": [{"source": f"{SERVICE}/projects", "destination": "projects", **changes}]}


PROFILES = [
    (mapped(destination=".resources/x"), Reason.INVALID_VALUE, "'.resources/x'"),
    (mapped(destination="projects/{{.Nope}}"), Reason.TEMPLATE_RESOLUTION_FAILED, "Nope"),
    (mapped(source="nowhere", required=True), Reason.SOURCE_EMPTY, "nowhere"),
    (mapped() | {"excludePatterns": ["["]}, Reason.INVALID_VALUE, "'['"),
    (
        mapped() | {"patches": [{"file": "**/project.json", "set": {".title[": "x"}}]},
        Reason.INVALID_VALUE,
        "[",
    ),
]


def test_profiles(patient: Patient) -> None:
    patient.rest()
    patient.pod.annotate({"sync-profile": "line"})
    patient.expect_refusal(patient.good, Reason.PROFILE_NOT_FOUND, "/line")
    for spec, reason, word in PROFILES:
        patient.plant.publish()
        apply_profile(patient.plant, spec)
        patient.expect_refusal(patient.good, reason, word)
    patient.plant.publish()
    apply_profile(patient.plant, mapped())
    patient.expect_going_on()


def apply_profile(plant: AgentEnvironment, spec: Mapping[str, object]) -> None:
    meta = {"name": "line", "namespace": plant.namespace}
    manifest = {"apiVersion": "stoker.io/v1alpha1", "kind": "SyncProfile", "metadata": meta, "spec": spec}
    plant.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))


def test_a_report_of_before_that_is_none(plant: AgentEnvironment) -> None:
    """An agent begins with what its predecessor reported, which may have been changed by others."""
    plant.maps.prepare_status()
    path = f"/api/v1/namespaces/{plant.namespace}/configmaps/stoker-status-plant"
    body = plant.cluster.request("GET", path).json()
    assert isinstance(body, dict)
    assert (
        plant.cluster.request("PUT", path, {**body, "data": {"filler": "no JSON", "other": "{}"}}).status
        == 200
    )
    pod = plant.pod(talks=False)
    commit = plant.commit(project("filler", 1))
    plant.publish(commit)
    pod.start(plant.kubeconfig)
    eventually(lambda: (plant.maps.status() or {})["filler"] != "no JSON", 30.0, pod.tail)
    plant.until_converged(pod, commit)
    assert (plant.maps.status() or {})["other"] == "{}", "what is not ours is left as it is"
