"""Our kinds through the real kubectl."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.api.manifests.yaml import load_documents
from stoker.api.registry import CATEGORY, KINDS, CustomResourceKind
from stoker_testkit.cluster.cluster_access import ClusterAccess

ROOT = Path(__file__).parents[3]
MANIFESTS = sorted((ROOT / "examples").glob("*.yaml")) + sorted(
    (ROOT / "tests/data/manifests").glob("*.yaml")
)

SYNCED = """
status:
  lastSyncTime: "2026-01-01T00:00:00Z"
  conditions:
    - {type: Ready, status: "False", reason: Failed, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
    - type: AllGatewaysSynced
      status: "False"
      reason: SyncFailed
      message: 4 of 5 gateways synced
      lastTransitionTime: "2026-01-01T00:00:00Z"
"""


def stoker(name: str, extra: str = "") -> str:
    return f"""
apiVersion: stoker.io/v1alpha1
kind: Stoker
metadata: {{name: {name}}}
spec:
  git: {{repo: "https://git.example.com/a.git", ref: "v12"}}
{extra}"""


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("igs.spec", "inheritsFrom"),
        ("igs.spec.git.auth", "at most one of sshKey, githubApp, token and basic"),
        ("igs.spec.polling.interval", "Default: 60s."),
        ("igs.spec.deployment", "Experimental: it may change before v1beta1."),
        ("igs.spec.gateway", "Stable: its meaning does not change before v1."),
        ("stokers.spec.deployment.stages.healthCheckUrl", "must answer 200"),
        ("stokers.spec.snapshots.storage.s3.credentialsSecretRef.name", "in the namespace of this resource"),
        (
            "stokers.status.discoveredGateways.syncHistory.diff.changes.action",
            "ENUM: added deleted modified",
        ),
        ("syncprofiles.spec.mappings.source", "Path in the repository"),
        ("igsb.spec.shared.scripts.destPath", "projects/{projectName}/"),
        ("gitrepoconfigs.spec.signing.secretRef", "ssh-privatekey"),
        ("gitdestinations.spec.secretPolicy", "ENUM: Encrypt Exclude Include Redact"),
        ("watchrules.spec.rules.labelSelector.matchExpressions.operator", "How the label is compared"),
        ("clusterwatchrules.spec.rules.namespaceSelector", "for scope Namespaced"),
    ],
)
def test_explain_teaches_a_field(kinds: ClusterAccess, path: str, words: str) -> None:
    output = " ".join(kinds.kubectl("explain", path).stdout.split())
    assert words in output


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_explain_shows_a_whole_kind(kinds: ClusterAccess, kind: CustomResourceKind) -> None:
    output = kinds.kubectl("explain", "--recursive", f"{kind.plural}.spec").stdout
    assert "<empty>" not in output
    assert output.count("<") > 3


def test_the_columns_show_the_state_of_a_sync(kinds: ClusterAccess, namespace: str) -> None:
    kinds.kubectl("create", "-n", namespace, "-f", "-", stdin=stoker("dairy"))
    kinds.kubectl(
        "patch", "-n", namespace, "stoker", "dairy", "--subresource=status", "--type=merge", "-p", SYNCED
    )
    head, row = kinds.kubectl("get", "-n", namespace, "stk").stdout.splitlines()
    assert head.split() == ["NAME", "REF", "GATEWAYS", "SYNCED", "LASTSYNC", "READY", "AGE"]
    *values, last_sync, ready, _age = row.split()
    assert values == ["dairy", "v12", "4", "of", "5", "gateways", "synced", "False"]
    assert last_sync.endswith(("d", "y"))
    assert ready == "False"


def test_the_columns_of_an_ignition_sync_are_those_of_the_design(
    kinds: ClusterAccess, namespace: str
) -> None:
    minimal = (ROOT / "examples" / "ignitionsync-minimal.yaml").read_text()
    kinds.kubectl("create", "-n", namespace, "-f", "-", stdin=minimal.replace("plant-west", namespace))
    head = kinds.kubectl("get", "-n", namespace, "igs").stdout.splitlines()[0]
    wide = kinds.kubectl("get", "-n", namespace, "igs", "-o", "wide").stdout.splitlines()[0]
    assert head.split() == wide.split() == ["NAME", "REF", "GATEWAYS", "SYNCED", "LASTSYNC", "READY", "AGE"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_answers_to_its_names(kinds: ClusterAccess, namespace: str, kind: CustomResourceKind) -> None:
    # The selector: other tests create cluster-scoped objects of these kinds meanwhile.
    selector = f"stoker.io/test={namespace}"
    for name in (kind.plural, kind.singular, *kind.short_names):
        listed = kinds.kubectl("get", name, "-n", namespace, "-l", selector, "-o", "json").stdout
        assert json.loads(listed)["items"] == []


def test_one_word_lists_all_kinds(kinds: ClusterAccess, namespace: str) -> None:
    kinds.kubectl("create", "-n", namespace, "-f", "-", stdin=stoker("dairy"))
    profile = (ROOT / "examples" / "syncprofile-minimal.yaml").read_text().replace("cellar", namespace)
    kinds.kubectl("create", "-n", namespace, "-f", "-", stdin=profile)
    listed = kinds.kubectl("get", CATEGORY, "-n", namespace, "-o", "name").stdout.split()
    assert {"stoker.stoker.io/dairy", "syncprofile.stoker.io/press-line"} <= set(listed)


def test_the_category_does_not_hide_the_kind_stoker(kinds: ClusterAccess, namespace: str) -> None:
    kinds.kubectl("create", "-n", namespace, "-f", "-", stdin=stoker("dairy"))
    found = kinds.kubectl("get", "stoker", "dairy", "-n", namespace, "-o", "name").stdout
    assert found.strip() == "stoker.stoker.io/dairy"


def test_an_unquoted_on_is_not_lost(kinds: ClusterAccess, namespace: str) -> None:
    alerting = '  alerting: {webhooks: [{type: slack, url: "https://a.example", on: [SyncFailed]}]}'
    kinds.kubectl("apply", "-n", namespace, "-f", "-", stdin=stoker("alerts", alerting))
    found = json.loads(kinds.kubectl("get", "stk", "alerts", "-n", namespace, "-o", "json").stdout)
    assert found["spec"]["alerting"]["webhooks"][0]["true"] == ["SyncFailed"]


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_a_file_means_the_same_to_us_as_to_kubectl(kinds: ClusterAccess, file: Path) -> None:
    read = kinds.kubectl(
        "create", "--dry-run=client", "--validate=false", "-o", "json", "-f", str(file)
    ).stdout
    decoder, theirs, position = json.JSONDecoder(), [], 0
    while position < len(read.strip()):
        document, position = decoder.raw_decode(read, position)
        theirs.append(document)
        position += len(read[position:]) - len(read[position:].lstrip())
    assert list(load_documents(file.read_bytes())) == theirs


WORDS = """
main 3.4.0 v12 y Y yes Yes YES yEs n no on On oN off true True tRUE false null Null NULL nULL ~
2026-03-02 2026-03-02T08:15:00Z 12:30:45 1:30 5m 1h30m
0 -0 7 +7 -7 07 08 010 0o10 0o18 0x1F 0x1G 0b101 0b102 1_000 1__0 _1 0_7
9223372036854775807 -9223372036854775808
1.5 .5 5. +.5 -1.5e-3 1e3 1E3 1e+3 1_0.5 1.2.3 . + -1- 0x 1e
"""


def test_a_word_means_the_same_to_us_as_to_kubectl(kinds: ClusterAccess) -> None:
    lines = [f'  "{number}": {word}' for number, word in enumerate(WORDS.split())]
    head = "apiVersion: stoker.io/v1alpha1\nkind: Stoker\nmetadata: {name: a, namespace: b}\nspec:\n"
    text = head + "\n".join(lines)
    read = kinds.kubectl(
        "create", "--dry-run=client", "--validate=false", "-o", "json", "-f", "-", stdin=text
    )
    (ours,) = load_documents(text.encode())
    assert ours == json.loads(read.stdout)


def test_the_crds_fit_into_a_plain_apply(kinds: ClusterAccess) -> None:
    planned = kinds.kubectl("apply", "--dry-run=server", "-f", str(ROOT / "config" / "crd")).stdout
    assert planned.count("(server dry run)") == len(KINDS)
