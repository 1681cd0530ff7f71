"""The policies of the chart: who may only press buttons changes no spec, and no ConfigMap is frozen."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import pytest
import yaml

from stoker_testkit.chart.helm import Helm
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.wait_until import eventually

USER = "--as=button-presser"
RULE = "--resource=stokers.stoker.io"
LABEL = {"stoker.io/cr-name": "line"}


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"))


@pytest.fixture
def policies(kinds: ClusterAccess, namespace: str, helm: Helm) -> Iterator[None]:
    """Those of the chart, as far as they reach into this test's namespace alone."""
    made = [one for one in helm.template({}) if one["kind"].startswith("ValidatingAdmissionPolicy")]
    assert len(made) == 4
    for one in made:
        one["metadata"]["name"] += f"-{namespace}"
        if one["kind"] == "ValidatingAdmissionPolicyBinding":
            one["spec"]["policyName"] += f"-{namespace}"
            only = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
            one["spec"]["matchResources"] = {"namespaceSelector": only}
    text = yaml.safe_dump_all(made)
    kinds.kubectl("apply", "-f", "-", stdin=text)
    try:
        yield
    finally:
        kinds.kubectl("delete", "-f", "-", "--wait=false", stdin=text)


@pytest.mark.usefixtures("policies")
def test_a_user_with_action_rights_alone_changes_no_spec(kinds: ClusterAccess, namespace: str) -> None:
    git = {"repo": "https://git.example.test/p.git", "ref": "main"}
    spec = {"git": git, "gateway": {"filesOnly": True}}
    resource = {
        "apiVersion": "stoker.io/v1alpha1",
        "kind": "Stoker",
        "metadata": {"name": "line", "namespace": namespace},
        "spec": spec,
    }
    kinds.kubectl("apply", "-f", "-", stdin=json.dumps(resource))
    kinds.kubectl("-n", namespace, "create", "role", "buttons", "--verb=get,patch", RULE)
    bound = ("rolebinding", "buttons", "--role=buttons", "--user=button-presser")
    kinds.kubectl("-n", namespace, "create", *bound)

    def patched(change: object) -> str:
        result = ("patch", "stoker", "line", "--type=merge", f"-p={json.dumps(change)}", USER)
        done = kinds.kubectl("-n", namespace, *result, check=False)
        return "" if done.returncode == 0 else done.stderr

    def elsewhere(name: str) -> object:
        return {"spec": {"git": {"repo": f"https://evil.example.test/{name}.git"}}}

    # Each try names another repository: a patch that changes nothing is always allowed.
    tries = itertools.count()
    eventually(
        lambda: "takes the verb update" in patched(elsewhere(f"try-{next(tries)}")),
        60,
        "the policy is in force",
    )
    assert "takes the verb update" in patched({"spec": {"approval": {"required": False}}})
    assert "takes the verb update" in patched({"spec": {"gateway": None}})
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "0"}
    assert "takes the verb update" in patched({"metadata": {"ownerReferences": [owner]}})
    assert patched({"spec": {"paused": True}}) == ""
    assert patched({"spec": {"rollback": {"toSnapshot": "filler-20260101-000000"}}}) == ""
    assert patched({"spec": {"rollback": None}}) == ""
    assert patched({"metadata": {"annotations": {"stoker.io/requested-at": "2026-01-01T00:00:00Z"}}}) == ""
    kinds.kubectl("-n", namespace, "create", "role", "authors", "--verb=update", RULE)
    kinds.kubectl(
        "-n", namespace, "create", "rolebinding", "authors", "--role=authors", "--user=button-presser"
    )
    eventually(lambda: patched(elsewhere("p")) == "", 60, "who may update may change the spec")


@pytest.mark.usefixtures("policies")
def test_a_user_with_action_rights_alone_rolls_back_only_to_what_a_gateway_had(
    kinds: ClusterAccess, namespace: str
) -> None:
    has, had, failed, never = (digit * 40 for digit in "1234")
    resource = {
        "apiVersion": "stoker.io/v1alpha1",
        "kind": "Stoker",
        "metadata": {"name": "line", "namespace": namespace},
        "spec": {
            "git": {"repo": "https://git.example.test/p.git", "ref": "main"},
            "gateway": {"filesOnly": True},
            "approval": {"required": True, "teams": ["plant-engineering"]},
        },
    }
    kinds.kubectl("apply", "-f", "-", stdin=json.dumps(resource))
    kinds.kubectl("-n", namespace, "create", "role", "buttons", "--verb=get,patch", RULE)
    bound = ("rolebinding", "buttons", "--role=buttons", "--user=button-presser")
    kinds.kubectl("-n", namespace, "create", *bound)

    def back_to(commit: str) -> str:
        change = json.dumps({"spec": {"rollback": {"toCommit": commit}}})
        result = ("patch", "stoker", "line", "--type=merge", f"-p={change}", USER)
        done = kinds.kubectl("-n", namespace, *result, check=False)
        return "" if done.returncode == 0 else done.stderr

    # Each try names another commit: a patch that changes nothing is always allowed.
    unknown = (f"{number:040x}" for number in itertools.count(1))
    eventually(
        lambda: "takes the verb update" in back_to(next(unknown)), 60, "no commit is known in status yet"
    )
    kinds.kubectl("-n", namespace, "patch", "stoker", "line", "--type=merge", '-p={"spec":{"rollback":null}}')
    history = [
        {"timestamp": "2026-01-02T00:00:00Z", "commit": failed, "result": "ScanFailed"},
        {"timestamp": "2026-01-01T00:00:00Z", "commit": had, "result": "success"},
    ]
    gateway = {
        "name": "filler",
        "namespace": namespace,
        "podName": "filler-0",
        "syncStatus": "Synced",
        "syncedCommit": has,
        "syncHistory": history,
    }
    status = json.dumps({"status": {"discoveredGateways": [gateway]}})
    kinds.kubectl(
        "-n", namespace, "patch", "stoker", "line", "--subresource=status", "--type=merge", f"-p={status}"
    )
    assert "takes the verb update" in back_to(never)
    assert "takes the verb update" in back_to(failed)
    assert back_to(had) == ""
    assert back_to(had) == "", "saying it again"
    assert back_to(has) == ""
    assert back_to("") == ""


@pytest.mark.usefixtures("policies")
def test_a_configmap_of_a_resource_cannot_be_made_immutable(kinds: ClusterAccess, namespace: str) -> None:
    def made(name: str, **more: object) -> str:
        meta = {"name": name, "namespace": namespace, "labels": LABEL}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, **more}
        done = kinds.kubectl("apply", "-f", "-", stdin=json.dumps(body), check=False)
        return "" if done.returncode == 0 else done.stderr

    assert made("stoker-status-line") == ""

    def probe() -> bool:
        result = made("probe", immutable=True)
        if not result:
            kinds.kubectl("-n", namespace, "delete", "configmap", "probe")
        return "must stay mutable" in result

    eventually(probe, 60, "the policy is in force")
    frozen = json.dumps({"immutable": True, "metadata": {"labels": {"stoker.io/cr-name": None}}})
    value = ("patch", "configmap", "stoker-status-line", "--type=merge", f"-p={frozen}")
    done = kinds.kubectl("-n", namespace, *value, check=False)
    assert "must stay mutable" in done.stderr
