"""Every recipe of docs/webhooks.md and docs/integrations does what it says: it is taken from its page."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker_testkit.assets import ensure_binaries as assets
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.forges.gitea import GiteaServer
from stoker_testkit.processes import Process
from stoker_testkit.wait_until import eventually

ROOT = Path(__file__).parents[3]
PAGES = {
    name: (ROOT / "docs" / name).read_text()
    for name in ("webhooks.md", "integrations/argo-cd.md", "integrations/kargo.md")
}
PROCESS = Path(__file__).parent / "receiver_process.py"
RECIPES = {
    match[1]: match[2]
    for page in PAGES.values()
    for match in re.finditer(r"<!-- recipe: ([\w-]+) -->\n```\w+\n(.*?)```\n", page, re.DOTALL)
}


class Site:
    """The namespace of a test, in place of those of the pages, and a receiver for it."""

    def __init__(self, cluster: ClusterAccess, namespace: str, folder: Path) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.url = ""
        self._folder = folder
        self._environment = {
            "PATH": f"{cluster.binaries}:{os.environ['PATH']}",
            "HOME": str(folder),
            "KUBECONFIG": str(cluster.kubeconfig()),
        }

    def serve(self, log: Path) -> Process:
        argv: list[str | Path] = [sys.executable, PROCESS, self.cluster.kubeconfig(), self.namespace]
        process = Process.start("receiver", argv, log=log)
        (port,) = eventually(
            lambda: re.findall(r"^(\d+) \d+$", log.read_text(), re.MULTILINE), 30, "its port"
        )
        self.url = f"http://127.0.0.1:{port}"
        self._environment |= {"RECEIVER": self.url, "key": self.secret("hmac-key")}
        eventually(lambda: self.status_of_a_ping() == 202, 20, "a receiver that knows its resources")
        return process

    def run(self, recipe: str, **environment: str) -> dict[str, Any]:
        """Run the recipe's commands; what the last one printed."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", RECIPES[recipe].replace("site1", self.namespace)],
            env=self._environment | environment,
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        document = json.loads(done.stdout) if done.stdout.startswith("{") else {}
        assert isinstance(document, dict)
        return document

    def post(self, path: str, body: str, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
        request = urllib.request.Request(  # noqa: S310 - the address is our own
            f"{self.url}{path}", method="POST", data=body.encode(), headers=headers
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - see above
            return answer.status, json.loads(answer.read())

    def status_of_a_ping(self) -> int:
        headers = {"X-Gitlab-Token": self.secret("hmac-key"), "Content-Type": "application/json"}
        try:
            return self.post(f"/webhook/{self.namespace}/plant", '{"object_kind": "ping"}', headers)[0]
        except OSError:
            return 0

    def secret(self, key: str) -> str:
        return self._get(
            "secret", "plant-webhook", f"go-template={{{{index .data {json.dumps(key)} | base64decode}}}}"
        )

    def asked(self) -> dict[str, str]:
        found = json.loads(self._get("stoker", "plant", "json"))["metadata"].get("annotations", {})
        return {
            name.removeprefix("stoker.io/"): value
            for name, value in found.items()
            if name.startswith("stoker.io/requested-")
        }

    def _get(self, kind: str, name: str, output: str) -> str:
        return self.cluster.kubectl("-n", self.namespace, "get", kind, name, "-o", output).stdout


@pytest.fixture
def site(kinds: ClusterAccess, namespace: str, tmp_path: Path) -> Iterator[Site]:
    manifest = {
        "apiVersion": "stoker.io/v1alpha1",
        "kind": "Stoker",
        "metadata": {"name": "plant", "namespace": namespace},
        "spec": {"git": {"repo": "https://git.example.com/plant.git", "ref": "main"}},
    }
    kinds.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    made = Site(kinds, namespace, tmp_path)
    made.run("keys")
    process = made.serve(tmp_path / "receiver.log")
    yield made
    process.stop()


def test_every_recipe_of_the_page_has_its_test() -> None:
    assert set(RECIPES) == {
        "keys",
        "curl-token",
        "curl-signed",
        "github",
        "gitea",
        "gitlab",
        "bitbucket",
        "argocd-application",
        "argocd-annotations",
        "argocd",
        "kargo",
        "kargo-git",
    }


@pytest.mark.parametrize(
    ("recipe", "source"),
    [
        ("curl-token", "generic"),
        ("curl-signed", "generic"),
        ("github", "github"),
        ("gitlab", "gitlab"),
        ("bitbucket", "bitbucket"),
    ],
)
def test_a_command_of_the_page_asks_for_the_ref(site: Site, recipe: str, source: str) -> None:
    assert site.run(recipe) == {"accepted": True, "ref": "2.0.0"}
    asked = site.asked()
    assert (asked["requested-ref"], asked["requested-source"]) == ("2.0.0", source)


@pytest.mark.xdist_group("gitea")
def test_a_gitea_set_up_by_the_page_calls(site: Site, gitea: GiteaServer) -> None:
    repository = gitea.create_repository(f"plant-{secrets.token_hex(4)}")
    site.run("gitea", GITEA=gitea.url, GITEA_TOKEN=gitea.token, OWNER=gitea.user, REPOSITORY=repository.name)
    repository.release("2.0.0")
    asked = eventually(site.asked, 20, "the release")
    assert asked["requested-source"] == "gitea"
    eventually(lambda: site.asked().get("requested-ref") == "2.0.0", 20, "its tag")


def test_a_notification_of_argo_cd_as_on_the_page_asks_for_the_ref(site: Site, tmp_path: Path) -> None:
    data = yaml.safe_load(RECIPES["argocd"])["data"]
    service = yaml.safe_load(data["service.webhook.ignition-sync"])
    (trigger,) = yaml.safe_load(data["trigger.on-sync-succeeded"])
    rendered = yaml.safe_load(
        _rendered(data["template.ignition-sync-webhook"], _application(site.namespace), tmp_path)
    )
    hook = rendered["webhook"]["ignition-sync"]
    headers = {
        one["name"]: one["value"].replace("$ignition-sync-token", site.secret("token"))
        for one in service["headers"]
    }
    assert trigger["when"] == "app.status.operationState.phase in ['Succeeded']"
    assert trigger["send"] == ["ignition-sync-webhook"]
    assert hook["method"] == "POST"
    assert hook["path"] == f"/webhook/{site.namespace}/plant"
    assert site.post(hook["path"], hook["body"], headers) == (202, {"accepted": True, "ref": "2.0.0"})
    assert site.asked()["requested-ref"] == "2.0.0"


def test_an_application_of_the_page_subscribes_and_names_the_resource() -> None:
    """Trigger and service are called in the annotation as in the map."""
    data = yaml.safe_load(RECIPES["argocd"])["data"]
    annotations = yaml.safe_load(RECIPES["argocd-annotations"])["metadata"]["annotations"]
    (subscription,) = [one for one in annotations if "/subscribe." in one]
    _, trigger, service = subscription.rsplit("/", 1)[1].split(".")
    assert {f"trigger.{trigger}", f"service.webhook.{service}"} <= data.keys()
    assert (annotations["stoker.io/cr-namespace"], annotations["stoker.io/cr-name"]) == ("plant", "bottling")
    assert annotations["git.ref"] == "2.0.0"


def test_an_application_whose_manifests_hold_the_ref_asks_for_none() -> None:
    """A request wins over the spec: a ref that does not move would take gateways back after each sync."""
    application = yaml.safe_load(RECIPES["argocd-application"])
    assert "annotations" not in application["metadata"]
    assert application["spec"]["source"]["path"] == "sites/plant"


def test_a_whole_application_of_argo_cd_is_understood_too(site: Site, tmp_path: Path) -> None:
    assert '{"app": {{toJson .app}}}' in PAGES["integrations/argo-cd.md"]
    body = _rendered('{"app": {{toJson .app}}}', _application(site.namespace), tmp_path)
    headers = {"Authorization": f"Bearer {site.secret('token')}", "Content-Type": "application/json"}
    assert site.post(f"/webhook/{site.namespace}/plant", body, headers)[1]["ref"] == "2.0.0"
    assert site.asked()["requested-source"] == "argocd"


def test_a_step_of_kargo_as_on_the_page_asks_for_the_ref(site: Site) -> None:
    (step,) = yaml.safe_load(RECIPES["kargo"])
    values = {
        "secret('bottling-webhook').token": site.secret("token"),
        f'quote({{"ref": {PROMOTED}}})': json.dumps({"ref": "2.0.0"}),
    }
    settings = step["config"]
    assert settings["url"] == "http://stoker-receiver.stoker-system.svc:8443/webhook/plant/bottling"
    path = f"/webhook/{site.namespace}/plant"
    headers = {one["name"]: _evaluated(one["value"], values) for one in settings["headers"]}
    body = _evaluated(settings["body"], values)
    assert settings["method"] == "POST"
    assert site.post(path, body, headers) == (202, {"accepted": True, "ref": "2.0.0"})
    body = '{"freight": {"commits": [{"tag": "2.0.0"}]}}'
    assert body in PAGES["integrations/kargo.md"]
    assert site.post(path, body, headers)[0] == 202
    assert site.asked()["requested-source"] == "kargo"


def test_a_promotion_of_kargo_by_git_writes_the_ref_of_the_values_that_the_page_shows() -> None:
    stage = yaml.safe_load(RECIPES["kargo-git"])
    steps = {one["uses"]: one["config"] for one in stage["spec"]["promotionTemplate"]["spec"]["steps"]}
    assert list(steps) == ["git-clone", "yaml-update", "git-commit", "git-push", "argocd-update"]
    (update,) = steps["yaml-update"]["updates"]
    assert update["key"] == "git.ref"
    assert _evaluated(update["value"], {PROMOTED: "2.0.0"}) == "2.0.0"
    assert '# values of the site\'s chart\ngit:\n  ref: "2.0.0"\n' in PAGES["integrations/kargo.md"]
    (checkout,) = steps["git-clone"]["checkout"]
    assert {steps["git-commit"]["path"], steps["git-push"]["path"]} == {checkout["path"]}
    assert steps["yaml-update"]["path"].startswith(f"{checkout['path']}/")


PROMOTED = 'commitFrom("https://git.example.net/plant/config.git").Tag'


def _evaluated(text: str, values: dict[str, str]) -> str:
    """An expression of Kargo, with what its functions would give."""
    return re.sub(r"\$\{\{ (.*?) \}\}", lambda match: values[match[1]], text)


def _application(namespace: str) -> dict[str, Any]:
    """The Application of the page with its annotations, for the resource of the test."""
    application: dict[str, Any] = yaml.safe_load(RECIPES["argocd-application"])
    document = yaml.safe_load(RECIPES["argocd-annotations"])["metadata"]
    assert {**document, "annotations": None} == {**application["metadata"], "annotations": None}
    place = {"stoker.io/cr-namespace": namespace, "stoker.io/cr-name": "plant"}
    application["metadata"]["annotations"] = document["annotations"] | place
    return application


def _rendered(template: str, application: dict[str, Any], folder: Path) -> str:
    """The template as Go's own engine fills it in, by way of helm, with the functions that both have."""
    chart = folder / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: page\nversion: 0.1.0\n")
    (chart / "values.yaml").write_text(json.dumps({"app": application, "text": template}))
    (chart / "templates" / "page.yaml").write_text(
        'kind: Page\ntext: {{ tpl .Values.text (dict "app" .Values.app "Template" .Template) | toJson }}\n'
    )
    done = subprocess.run(
        [assets.helm(), "template", "page", chart],
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return str(yaml.safe_load(done.stdout)["text"])
