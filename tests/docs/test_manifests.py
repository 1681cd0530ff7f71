"""Every manifest of every page is one that a real API server takes, every value one that the chart has."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker_testkit.admission.webhook_process import Admission
from stoker_testkit.chart.helm import Helm
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.docs_checks.allowlist import FOREIGN, foreign_key
from stoker_testkit.docs_checks.command_check import documents_of, patches_of
from stoker_testkit.docs_checks.markdown_page import Page
from stoker_testkit.docs_checks.server_dry_run import ServerDryRun
from stoker_testkit.docs_checks.tool_help import Tool
from stoker_testkit.docs_checks.yaml_fences import Content, FenceKind, UnclearFence, content_of, patch_of

pytestmark = pytest.mark.xdist_group("documents")

HEAD = "apiVersion: kustomize.toolkit.fluxcd.io/v1\n"


@pytest.fixture(scope="module")
def asked(kinds: ClusterAccess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerDryRun]:
    """A namespace in which our own admission judges resources as well."""
    namespace = f"documents-{uuid.uuid4().hex[:12]}"
    kinds.create_namespace(namespace)
    with Admission(kinds, namespace, tmp_path_factory.mktemp("admission")) as admission:
        admission.prepare()
        admission.start()
        admission.configure()
        admission.until_trusted()
        yield ServerDryRun(kinds, namespace)


def pieces(pages: list[Page]) -> Iterator[tuple[str, str]]:
    """Every piece of YAML with its place: fences, and here-documents for kubectl."""
    for fence in (fence for page in pages for fence in page.fences):
        if fence.language == "yaml":
            yield fence.place, fence.text
        elif fence.language == "sh":
            yield from documents_of(fence)


def test_every_manifest_is_taken_and_every_value_rendered(
    pages: list[Page], asked: ServerDryRun, others: ServerDryRun, kubectl: Tool, tmp_path: Path
) -> None:
    wrong: list[str] = []
    used: set[str] = set()
    counted = dict.fromkeys(FenceKind, 0)
    for place, text in pieces(pages):
        try:
            content = content_of(text)
        except UnclearFence as unclear:
            wrong.append(f"{place}: {unclear}")
            continue
        counted[content.sort] += 1
        used |= {content.foreign} - {""}
        wrong += [f"{place}: {message}" for message in judged(content, asked, others, tmp_path, used)]
    for fence in (fence for page in pages for fence in page.fences if fence.language == "sh"):
        for place, call in patches_of(fence, kubectl):
            for text in call.values("-p", "--patch"):  # a file is a fence of its own
                patched = patch_of(call.operands[0].partition("/")[0], text)
                message = None if patched is None else asked.trouble(patched)
                wrong += [f"{place}: {message}"] if message else []
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
    image = folder / "image.yaml"  # a page shows only the values that it is about
    image.write_text("image: {repository: stoker}\n")
    done = helm.run("template", "stoker", helm.chart, f"--values={image}", f"--values={file}", check=False)
    return done.stderr.strip() if done.returncode else ""


def judged(
    content: Content, asked: ServerDryRun, others: ServerDryRun, folder: Path, used: set[str]
) -> Iterator[str]:
    for one in content.documents:
        if content.sort is FenceKind.VALUES:
            refused = refusal(one, folder)
            if refused:
                yield refused
        elif others.serves(one) and not asked.serves(one):
            if message := others.trouble(one):
                yield message
        elif asked.serves(one) or (key := foreign_key(str(one["kind"]))) is None:
            if message := asked.trouble(one):
                yield message
        else:
            used.add(key)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# part of: Stoker\nspec: {polling: {interval: 5 minutes}}\n", "interval"),
        ("# part of: Stoker\nspec: {poling: {}}\n", "poling"),
        ("# often.yaml, part of: Stoker\nspec: {poling: {}}\n", "poling"),
        (
            "# part of: Stoker\nspec: {maintenanceWindows: [{cron: 0 2 31 2 *, duration: 1h}]}\n",
            "never comes",
        ),
        ("# part of: Pod\nspec: {containres: []}\n", "containres"),
        ("apiVersion: stoker.io/v1alpha1\nkind: Stokr\nmetadata: {name: a}\n", "no stoker.io/v1alpha1 Stokr"),
        ("# values of the chart\ncontroler: {}\n", "controler"),
        ("# part of: Application\nspec: {syncPolicy: {automatic: {}}}\n", "automatic"),
        (f"{HEAD}kind: Kustomization\nmetadata: {{name: a}}\nspec: {{prune: true}}\n", "interval"),
    ],
)
def test_each_sort_of_mistake_is_found(
    asked: ServerDryRun, others: ServerDryRun, tmp_path: Path, text: str, message: str
) -> None:
    (found,) = judged(content_of(text), asked, others, tmp_path, set())
    assert message in found


@pytest.mark.parametrize("text", ["spec: {}\n", "a: [\n", "- a\n", "# part of: nothing\nspec: {}\n"])
def test_a_manifest_of_unclear_content_is_refused(text: str) -> None:
    with pytest.raises(UnclearFence):
        content_of(text)
