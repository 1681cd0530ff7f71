"""Files of a repository that a gateway must never send."""

from __future__ import annotations

import pytest

from stoker.controller.bidirectional.automation_files import closed_path_reason


@pytest.mark.parametrize(
    "path",
    [
        ".forgejo/workflows/build.yaml",
        ".gitea/workflows/build.yaml",
        ".github/workflows/build.yaml",
        "site/.GitHub/workflows/build.yaml",
        ".gitlab-ci.yml",
        "site/.gitlab-ci.yml",
        "site/.woodpecker.yml",
        ".woodpecker/build.yml",
        "site/.circleci/config.yml",
        "site/.drone.yml",
        "site/.buildkite/pipeline.yml",
        "site/.tekton/push.yaml",
        "site/.travis.yml",
        "site/.gitmodules",
        "site/projects/.gitattributes",
        "site/.githooks/pre-commit",
        "Jenkinsfile",
        "site/Jenkinsfile",
        "site/JENKINSFILE",
        "site/Jenkinsfile.deploy",
        "site/azure-pipelines.yml",
        "site/Azure-Pipelines-1.yml",
        "site/azure-pipeline.yml",
        "site/deploy.Jenkinsfile",
        "site/gitlab-ci.yml",
        "templates/build.gitlab-ci.yml",
        "site/bitbucket-pipelines.yml",
        "site/appveyor.yml",
        "site/cloudbuild.yaml",
        "docs/CODEOWNERS",
        "hooks/pre-commit",
        "Makefile",
        "new-at-the-top.json",
    ],
)
def test_what_git_a_forge_or_a_ci_service_acts_on_is_closed(path: str) -> None:
    assert closed_path_reason(path)


@pytest.mark.parametrize(
    "path",
    [
        "site/projects/hmi/view.json",
        "site/projects/hmi/com.inductiveautomation.perspective/views/Jenkins/view.json",
        "services/filler/config/resources/core/ignition/tag-provider/default/config.json",
        "site/projects/azure/pipelines.json",
        "site/projects/hmi/hooks/code.py",
    ],
)
def test_what_a_gateway_has_is_open(path: str) -> None:
    assert closed_path_reason(path) == ""
