"""Pull requests on the forges that host repositories: GitHub, GitLab, Gitea."""

from stoker.forges.detect import forge_kind
from stoker.forges.errors import ForgeRefused, ForgeUnavailable
from stoker.forges.factory import forge_for
from stoker.forges.types import Forge, PullRequest, PullRequestDraft, PullRequestState

__all__ = [
    "Forge",
    "ForgeRefused",
    "ForgeUnavailable",
    "PullRequest",
    "PullRequestDraft",
    "PullRequestState",
    "forge_for",
    "forge_kind",
]
