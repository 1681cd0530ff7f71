"""Every manifest of every page is one that a real API server takes, every value one that the chart has."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.testing.cluster.admission import Admission
from stoker.testing.cluster.cluster_access import ClusterAccess
from stoker.testing.cluster.helm import Helm
from stoker.testing.documents.elsewhere import FOREIGN, foreign_key
from stoker.testing.documents.examining import documents_of, patches_of
from stoker.testing.documents.manifests import Content, Sort, Unclear, content_of, patch_of
from stoker.testing.documents.pages import Page
from stoker.testing.documents.tools import Tool

pytestmark = pytest.mark.xdist_group("documents")


class Asked:
    """Sends manifests to the API server and keeps none."""

    def __init__(self, cluster: ClusterAccess, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._resources: dict[str, dict[str, tuple[str, bool]]] = {}

    def trouble(self, manifest: dict[str, Any]) -> str | None:
        """Why it is not taken."""
        version, kind = str(manifest["apiVersion"]), str(manifest["kind"])
        served = self._served(version).get(kind)
        if served is None:
            return f"the API server has no {version} {kind}, and neither has FOREIGN"
        plural, namespaced = served
        head: dict[str, Any] = dict(manifest.get("metadata") or {})
        # Who approves must be whom the annotation names, and that is nobody of ours.
        head["annotations"] = {
            name: text for name, text in (head.get("annotations") or {}).items() if "/approve" not in name
        }
        body = {**manifest, "metadata": {**head, **({"namespace": self._namespace} if namespaced else {})}}
        group = f"/apis/{version}" if "/" in version else f"/api/{version}"
        within = f"/namespaces/{self._namespace}" if namespaced else ""
        place = f"{group}{within}/{plural}/{head.get('name', '')}"
        answer = self._cluster.request(
            "PATCH",
            f"{place}?dryRun=All&fieldValidation=Strict&fieldManager=documents&force=true",
            body,
            content_type="application/apply-patch+yaml",
        )
        said: Any = answer.json()
        return None if answer.status in (200, 201) else str(said.get("message"))

    def serves(self, manifest: dict[str, Any]) -> bool:
        return str(manifest["kind"]) in self._served(str(manifest["apiVersion"]))

    def _served(self, version: str) -> dict[str, tuple[str, bool]]:
        if version not in self._resources:
            path = f"/apis/{version}" if "/" in version else f"/api/{version}"
            answer = self._cluster.request("GET", path)
            listed: Any = answer.json() if answer.status == 200 else {}
            self._resources[version] = {
                one["kind"]: (one["name"], one["namespaced"])
                for one in listed.get("resources", ())
                if "/" not in one["name"]
            }
        return self._resources[version]


@pytest.fixture(scope="module")
def asked(kinds: ClusterAccess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """A namespace in which our own admission judges resources as well."""
    namespace = f"documents-{uuid.uuid4().hex[:12]}"
    kinds.create_namespace(namespace)
    with Admission(kinds, namespace, tmp_path_factory.mktemp("admission")) as admission:
        admission.prepare()
        admission.start()
        admission.configure()
        admission.until_trusted()
        yield Asked(kinds, namespace)


def pieces(pages: list[Page]) -> Iterator[tuple[str, str]]:
    """Every piece of YAML, by where it stands: fences, and here-documents for kubectl."""
    for fence in (fence for page in pages for fence in page.fences):
        if fence.language == "yaml":
            yield fence.place, fence.text
        elif fence.language == "sh":
            yield from documents_of(fence)


def test_every_manifest_is_taken_and_every_value_rendered(
    pages: list[Page], asked: Asked, kubectl: Tool, tmp_path: Path
) -> None:
    wrong: list[str] = []
    used: set[str] = set()
    counted = dict.fromkeys(Sort, 0)
    for place, text in pieces(pages):
        try:
            content = content_of(text)
        except Unclear as unclear:
            wrong.append(f"{place}: {unclear}")
            continue
        counted[content.sort] += 1
        used |= {content.foreign} - {""}
        wrong += [f"{place}: {said}" for said in judged(content, asked, tmp_path, used)]
    for fence in (fence for page in pages for fence in page.fences if fence.language == "sh"):
        for place, call in patches_of(fence, kubectl):
            (text,) = call.values("-p", "--patch")
            patched = patch_of(call.operands[0].partition("/")[0], text)
            said = None if patched is None else asked.trouble(patched)
            wrong += [f"{place}: {said}"] if said else []
    assert not wrong, "\n".join(wrong)
    assert min(counted.values()) > 3
    shell = {
        word
        for page in pages
        for fence in page.fences
        for word in fence.text.split()
        if fence.language == "sh"
    }
    used |= {key for key in FOREIGN if key.lower() in shell}
    assert set(FOREIGN) - used == set(), "entries of FOREIGN that no page needs"


def refusal(values: dict[str, Any], folder: Path) -> str:
    """What helm says about values that the chart does not take."""
    helm, file = Helm(folder), folder / "values.json"
    file.write_text(json.dumps(values))
    done = helm.run("template", "stoker", helm.chart, f"--values={file}", check=False)
    return done.stderr.strip() if done.returncode else ""


def judged(content: Content, asked: Asked, folder: Path, used: set[str]) -> Iterator[str]:
    for one in content.documents:
        if content.sort is Sort.VALUES:
            refused = refusal(one, folder)
            if refused:
                yield refused
        elif asked.serves(one) or (key := foreign_key(str(one["kind"]))) is None:
            if said := asked.trouble(one):
                yield said
        else:
            used.add(key)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# part of: Stoker\nspec: {polling: {interval: 5 minutes}}\n", "interval"),
        ("# part of: Stoker\nspec: {poling: {}}\n", "poling"),
        (
            "# part of: Stoker\nspec: {maintenanceWindows: [{cron: 0 2 31 2 *, duration: 1h}]}\n",
            "never comes",
        ),
        ("# part of: Pod\nspec: {containres: []}\n", "containres"),
        ("apiVersion: stoker.io/v1alpha1\nkind: Stokr\nmetadata: {name: a}\n", "no stoker.io/v1alpha1 Stokr"),
        ("# values of the chart\ncontroler: {}\n", "controler"),
    ],
)
def test_each_sort_of_mistake_is_found(asked: Asked, tmp_path: Path, text: str, said: str) -> None:
    (found,) = judged(content_of(text), asked, tmp_path, set())
    assert said in found


@pytest.mark.parametrize("text", ["spec: {}\n", "a: [\n", "- a\n", "# part of: nothing\nspec: {}\n"])
def test_what_nobody_can_tell_is_refused(text: str) -> None:
    with pytest.raises(Unclear):
        content_of(text)
