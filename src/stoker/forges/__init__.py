"""Pull requests on the forges that hold repositories: GitHub, GitLab, Gitea."""

from stoker.forges.addresses import kind_of
from stoker.forges.choosing import forge_for
from stoker.forges.refusals import ForgeRefused, ForgeUnavailable
from stoker.forges.values import Forge, PullRequest, PullRequestDraft, RequestState

__all__ = [
    "Forge",
    "ForgeRefused",
    "ForgeUnavailable",
    "PullRequest",
    "PullRequestDraft",
    "RequestState",
    "forge_for",
    "kind_of",
]
