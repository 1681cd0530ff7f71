"""Repository files that git, a forge or a CI service executes or obeys. Pure.

A gateway must never send such a file: a CI service runs it with the repository's secrets, often before a
review of the pull request. `guardrails` checks every file here, whatever the agent reports about it. No list
of CI services is ever complete, so hidden paths and the top folder of the repository are closed as a whole;
the list covers files that are read from elsewhere.
"""

from __future__ import annotations

import re

_NAMES = frozenset(
    {
        "action.yaml",
        "action.yml",
        "appveyor.yaml",
        "appveyor.yml",
        "bitbucket-pipelines.yaml",
        "bitbucket-pipelines.yml",
        "buildspec.yaml",
        "buildspec.yml",
        "circle.yml",
        "cloudbuild.json",
        "cloudbuild.yaml",
        "cloudbuild.yml",
        "codefresh.yaml",
        "codefresh.yml",
        "codeowners",
        "dependabot.yaml",
        "dependabot.yml",
        "netlify.toml",
        "pipeline.gocd.yaml",
        "renovate.json",
        "renovate.json5",
        "vercel.json",
        "wercker.yml",
    }
)
_FAMILIES = re.compile(
    r"(?:.*[-._])?(jenkinsfile|azure-pipelines?|bitbucket-pipelines|gitlab-ci)(?:[-._].*)?"
)
_HOOKS = "hooks"
"""A top-level folder that `core.hooksPath` may name."""


def closed_path_reason(path: str) -> str:
    """Why a repository file must not come from a gateway; empty if it may.

    Names are compared without regard to case, because checkouts on Windows or macOS do not distinguish it.
    """
    parts = path.casefold().split("/")
    hidden = next((part for part in parts if part.startswith(".")), "")
    if hidden:
        return (
            f"is below the hidden name {hidden}, where git, forges and CI services keep files that they "
            "execute"
        )
    if len(parts) == 1:
        return "is in the top folder of the repository, where CI services look for files that they execute"
    automated = next((part for part in parts if part in _NAMES or _FAMILIES.fullmatch(part)), "")
    if automated or parts[0] == _HOOKS:
        return (
            f"is named {automated or _HOOKS}, which git, a forge or a CI service executes or reads as "
            "configuration"
        )
    return ""
