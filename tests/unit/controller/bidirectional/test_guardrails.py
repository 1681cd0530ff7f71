"""The files of a change set that are accepted, whatever their agent says about them."""

from __future__ import annotations

import pytest

from stoker.controller.bidirectional.guardrails import GuardrailRules
from stoker.domain.intent.files import FileMapping, FilesIntent
from stoker.domain.intent.intent import GatewayIntent, ResourceIdentity, SyncResourceKind
from stoker.domain.intent.policies import BidirectionalPolicy, GatewayPolicies
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.protocol import ChangeAction, ChangedFile
from stoker.domain.refs import GitRef, RepoUrl

POLICY = BidirectionalPolicy(enabled=True, watch_paths=("**",))


def refusal(
    mapping: FileMapping, path: str, repo_path: str, action: ChangeAction = ChangeAction.WRITTEN
) -> str:
    intent = GatewayIntent(
        ResourceIdentity(SyncResourceKind.STOKER, "plant", "line"),
        "press",
        SourceIntent(RepoUrl("https://git.test/plant.git"), GitRef("main")),
        FilesIntent((mapping,)),
        TemplateValues(gateway_name="press", namespace="plant"),
        GatewayPolicies(),
    )
    judged = GuardrailRules(intent, POLICY).judge([ChangedFile(path, repo_path, action)])
    return "".join(note.why for note in judged.refused)


@pytest.mark.parametrize("source", ["", ".", "./"])
def test_a_mapping_of_the_whole_repository_lets_nothing_pass(source: str) -> None:
    assert "any mapping" in refusal(FileMapping(source, "projects"), "projects/ci/x.json", "ci/x.json")


@pytest.mark.parametrize("action", ChangeAction)
def test_files_that_a_ci_service_runs_are_neither_written_nor_deleted(action: ChangeAction) -> None:
    mapping = FileMapping("site", "projects")
    assert refusal(mapping, "projects/hmi/view.json", "site/hmi/view.json", action) == ""
    assert "CI service" in refusal(mapping, "projects/hmi/Jenkinsfile", "site/hmi/Jenkinsfile", action)
    assert "through any mapping" in refusal(mapping, "projects/hmi/view.json", "other/hmi/view.json", action)
