"""Which files of a change set pass, whatever the agent that sent it says about them."""

from __future__ import annotations

import pytest

from stoker.controller.bidirectional.guardrails import Rules
from stoker.domain.intent.files import FilesIntent, Mapping
from stoker.domain.intent.intent import FrontDoor, GatewayIntent, Identity
from stoker.domain.intent.policies import Bidirectional, GatewayPolicies
from stoker.domain.intent.source import Source
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.protocol import Action, ChangedFile
from stoker.domain.refs import GitRef, RepoUrl

POLICY = Bidirectional(enabled=True, watch_paths=("**",))


def refusal(mapping: Mapping, path: str, repo_path: str, action: Action = Action.WRITTEN) -> str:
    intent = GatewayIntent(
        Identity(FrontDoor.STOKER, "plant", "line"),
        "press",
        Source(RepoUrl("https://git.test/plant.git"), GitRef("main")),
        FilesIntent((mapping,)),
        TemplateValues(gateway_name="press", namespace="plant"),
        GatewayPolicies(),
    )
    judged = Rules(intent, POLICY).judge([ChangedFile(path, repo_path, action)])
    return "".join(note.why for note in judged.refused)


@pytest.mark.parametrize("source", ["", ".", "./"])
def test_a_mapping_of_the_whole_repository_lets_nothing_pass(source: str) -> None:
    assert "by any mapping" in refusal(Mapping(source, "projects"), "projects/ci/x.json", "ci/x.json")


@pytest.mark.parametrize("action", Action)
def test_files_that_a_ci_service_runs_are_neither_written_nor_deleted(action: Action) -> None:
    mapping = Mapping("site", "projects")
    assert refusal(mapping, "projects/hmi/view.json", "site/hmi/view.json", action) == ""
    assert "CI service" in refusal(mapping, "projects/hmi/Jenkinsfile", "site/hmi/Jenkinsfile", action)
    assert "by any mapping" in refusal(mapping, "projects/hmi/view.json", "other/hmi/view.json", action)
