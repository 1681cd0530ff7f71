"""Resources on their way into the cluster: what is refused, what is mentioned, and who may approve."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker_testkit.admission.webhook_process import Admission
from stoker_testkit.cluster.cluster_access import ClusterAccess

GIT = {"repo": "https://git.example.net/plant.git", "ref": "main"}
GROUPS = {
    "Stoker": "stoker.io",
    "SyncProfile": "stoker.io",
    "IgnitionSync": "sync.ignition.io",
    "IgnitionSyncBase": "sync.ignition.io",
    "GitRepoConfig": "configbutler.ai",
    "GitDestination": "configbutler.ai",
    "WatchRule": "configbutler.ai",
}


class NamespaceClient:
    """What a person does with kubectl in one namespace, and what the cluster says to it."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.namespace = admission.namespace

    def apply(
        self, kind: str, name: str, *, user: str = "admin", annotations: Any = None, **spec: Any
    ) -> str:
        """What kubectl prints besides success; a refusal begins with Error."""
        manifest = {
            "apiVersion": f"{GROUPS[kind]}/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace, "annotations": annotations or {}},
            "spec": spec,
        }
        done = self._admission.cluster.kubectl(
            "apply", "-f", "-", stdin=json.dumps(manifest), check=False, user=user
        )
        return done.stderr

    def annotate(self, what: str, *annotations: str, user: str) -> str:
        done = self._admission.cluster.kubectl(
            "-n", self.namespace, "annotate", "--overwrite", what, *annotations, check=False, user=user
        )
        return done.stderr

    def allow(self, *users: str) -> None:
        role = "stoker-editor"
        self._admission.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {"name": role, "namespace": self.namespace},
                "rules": [{"apiGroups": ["stoker.io"], "resources": ["stokers"], "verbs": ["*"]}],
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": role, "namespace": self.namespace},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
                "subjects": [{"kind": "User", "name": user} for user in users],
            },
        )


@pytest.fixture
def client(kinds: ClusterAccess, namespace: str, tmp_path: Path) -> Iterator[NamespaceClient]:
    with Admission(kinds, namespace, tmp_path) as admission:
        admission.prepare()
        admission.start()
        admission.configure()
        admission.until_trusted()
        yield NamespaceClient(admission)


@pytest.mark.smoke
def test_what_the_adapters_refuse_is_refused_with_their_sentence(client: NamespaceClient) -> None:
    order = [{"name": "a", "dependsOn": ["b"]}, {"name": "b", "dependsOn": ["a"]}]
    result = client.apply("Stoker", "circle", git=GIT, deployment={"syncOrder": order})
    assert "DependencyCycle: gateway 'a' can never begin: a waits for b waits for a" in result

    resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
    result = client.apply("Stoker", "greedy", git=GIT, agent={"resources": resources})
    assert "InvalidSpec: agent.resources.requests.cpu is 2, more than" in result
    assert "Error" in client.apply("Stoker", "globs", git=GIT, excludePatterns=["{a,b"])
    assert client.apply("Stoker", "fine", git=GIT) == ""


def test_what_may_still_come_is_only_mentioned(client: NamespaceClient) -> None:
    result = client.apply("IgnitionSync", "heir", git=GIT, inheritsFrom={"name": "base"})
    assert "Warning: BaseNotFound: IgnitionSyncBase" in result
    assert "Error" not in result
    client.apply("IgnitionSyncBase", "base", gateway={"port": 8043, "tls": False, **key()})
    result = client.apply("IgnitionSync", "heir", git={**GIT, "ref": "v2"}, inheritsFrom={"name": "base"})
    assert "Warning: PortWithoutTLS" in result
    assert "Error" not in result


def test_profiles_that_wait_for_each_other_are_refused(client: NamespaceClient) -> None:
    mapping = [{"source": "a", "destination": "b"}]
    result = client.apply("SyncProfile", "one", mappings=mapping, dependsOn=[{"profileName": "two"}])
    assert "Warning: ProfileNotFound: SyncProfile 'two' does not exist yet" in result
    assert client.apply("SyncProfile", "two", mappings=mapping) == ""
    result = client.apply("SyncProfile", "two", mappings=mapping, dependsOn=[{"profileName": "one"}])
    assert "DependencyCycle: SyncProfile 'two' can never begin: two waits for one waits for two" in result
    result = client.apply("SyncProfile", "three", mappings=[{"source": "{{.Nmae}}", "destination": "b"}])
    assert "spec.mappings[0].source" in result


def test_the_whole_repository_is_not_mapped_where_changes_flow_back(client: NamespaceClient) -> None:
    whole = [{"source": ".", "destination": "projects"}]
    git = {"repo": "https://git.example.test/p.git", "ref": "main"}
    back = {"enabled": True, "watchPaths": ["projects/**"]}
    assert client.apply("SyncProfile", "whole", mappings=whole) == ""
    refused = "SyncProfile whole maps the whole repository"
    assert refused in client.apply("Stoker", "line", git=git, gateway={"filesOnly": True}, bidirectional=back)
    assert client.apply("SyncProfile", "whole", mappings=[{"source": "a", "destination": "projects"}]) == ""
    assert refused not in client.apply(
        "Stoker", "line", git=git, gateway={"filesOnly": True}, bidirectional=back
    )
    assert refused in client.apply("SyncProfile", "whole", mappings=whole)


def test_destinations_that_overlap_are_refused(client: NamespaceClient) -> None:
    repository: dict[str, Any] = {
        "repoUrl": f"https://git.example.net/{client.namespace}.git",
        "allowedBranches": ["main", "dev"],
    }

    def destination(name: str, folder: str, branch: str = "main", repo: str = "mirror") -> str:
        return client.apply("GitDestination", name, repoRef={"name": repo}, branch=branch, baseFolder=folder)

    assert "Warning: DestinationNotFound: GitRepoConfig" in destination("early", "clusters/a")
    client.apply("GitRepoConfig", "mirror", **repository)
    client.apply(
        "GitRepoConfig", "again", **{**repository, "repoUrl": repository["repoUrl"].removesuffix(".git")}
    )
    result = destination("inside", "clusters/a/apps")
    assert "FoldersOverlap: spec.baseFolder: 'clusters/a/apps' overlaps 'clusters/a'" in result
    assert "FoldersOverlap" in destination("around", "clusters", repo="again")
    assert destination("beside", "clusters/ab") == ""
    assert destination("branch", "clusters/a", branch="dev") == ""
    assert "BranchNotAllowed" in destination("closed", "elsewhere", branch="release")
    assert destination("early", "clusters/a") == "", "a destination does not overlap itself"

    result = client.apply("GitRepoConfig", "mirror", **{**repository, "allowedBranches": ["main"]})
    assert "Warning: BranchNotAllowed" in result
    rule = [{"resources": ["deployments", "deployments/scale"]}]
    result = client.apply("WatchRule", "all", destinationRef={"name": "nowhere"}, rules=rule)
    assert "Warning: FieldIgnored" in result
    assert "Warning: DestinationNotFound" in result
    assert "Error" not in result


def test_a_refusal_does_not_name_destinations_of_another_namespace(client: NamespaceClient) -> None:
    absent = {"name": "mirror", "namespace": "default"}
    result = client.apply("WatchRule", "all", destinationRef=absent, rules=[{"resources": ["configmaps"]}])
    assert "Warning: DestinationPolicyDenied: GitDestination default/mirror does not allow" in result
    assert "exist" not in result
    assert "Error" not in result


@pytest.mark.smoke
def test_no_user_approves_in_the_name_of_another(client: NamespaceClient) -> None:
    client.allow("alice", "carol")
    client.apply("Stoker", "plant", git=GIT, approval={"required": True, "teams": ["developers", "owners"]})
    at = "stoker.io/approved-at=2026-03-02T08:15:00Z"
    assert "ApproverMismatch" in client.annotate(
        "stoker/plant", "stoker.io/approved-by=bob", at, user="alice"
    )
    assert "ApproverMismatch" in client.annotate("stoker/plant", "approved-by=carol", at, user="carol")
    assert "ApproverMismatch" in client.annotate("stoker/plant", at, user="alice")
    assert client.annotate("stoker/plant", "stoker.io/approved-by=alice", at, user="alice") == ""
    later = "stoker.io/approved-ref=v3"
    assert "ApproverMismatch" in client.annotate("stoker/plant", later, user="carol")
    another = f"stoker.io/approved-plan={'b' * 64}"
    assert "ApproverMismatch" in client.annotate("stoker/plant", another, user="carol")
    assert client.annotate("stoker/plant", another, user="alice") == ""
    assert client.annotate("stoker/plant", "example.net/other=1", user="carol") == ""
    withdrawn = ("stoker.io/approved-by-", "stoker.io/approved-at-", "stoker.io/approved-plan-")
    assert client.annotate("stoker/plant", *withdrawn, user="carol") == ""
    # A plan alone is the consent to deletions of one gateway; where changes take an approval it is none.
    alone = f"stoker.io/approved-plan={'c' * 64}"
    assert "ApproverMismatch" in client.annotate("stoker/plant", alone, user="carol")
    client.apply("Stoker", "free", git=GIT)
    assert client.annotate("stoker/free", alone, user="carol") == ""
    forged = {"stoker.io/approved-by": "bob"}
    assert "ApproverMismatch" in client.apply("Stoker", "new", user="alice", annotations=forged, git=GIT)


def test_an_object_that_became_invalid_can_still_be_annotated_and_deleted(
    client: NamespaceClient, kinds: ClusterAccess
) -> None:
    """Rules may become stricter, and a finalizer has to be removed all the same."""
    base: dict[str, Any] = {"gateway": {"filesOnly": True}, "agent": {"resources": {"limits": {"cpu": "4"}}}}
    client.apply("IgnitionSyncBase", "base", **base)
    heir: dict[str, Any] = {
        "git": GIT,
        "inheritsFrom": {"name": "base"},
        "agent": {"resources": {"requests": {"cpu": "3"}}},
    }
    assert "Error" not in client.apply("IgnitionSync", "heir", **heir)
    client.apply(
        "IgnitionSyncBase", "base", gateway={"filesOnly": True}, agent={"resources": {"limits": {"cpu": "1"}}}
    )
    path = f"/apis/sync.ignition.io/v1alpha1/namespaces/{client.namespace}/ignitionsyncs/heir"
    found: Any = kinds.request("GET", path).json()
    found["metadata"]["finalizers"] = ["example.net/held"]
    assert kinds.request("PUT", path, found).status == 200
    assert kinds.request("DELETE", path).status == 200
    found = kinds.request("GET", path).json()
    found["metadata"]["finalizers"] = []
    assert kinds.request("PUT", path, found).status == 200
    assert kinds.request("GET", path).status == 404


def key() -> dict[str, Any]:
    return {"apiKeySecretRef": {"name": "gateway", "key": "apiKey"}}
