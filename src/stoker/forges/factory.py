"""Builds the forge client for a repository's address and a token."""

from __future__ import annotations

from stoker.domain.errors import Stalled
from stoker.domain.intent.policies import ForgeKind
from stoker.domain.reasons import Reason
from stoker.domain.refs import RepoUrl
from stoker.domain.secrets import Secret
from stoker.forges.detect import forge_kind, forge_place, unknown_forge
from stoker.forges.gitea import GiteaForge
from stoker.forges.github import GitHubForge
from stoker.forges.gitlab import GitLabForge
from stoker.forges.http import TIMEOUT, ForgeHttpOptions
from stoker.forges.types import Forge


def forge_for(
    repo: RepoUrl,
    token: Secret,
    *,
    kind: ForgeKind | None = None,
    url: str = "",
    ca: bytes | None = None,
    proxy: str = "",
    timeout: float = TIMEOUT,
) -> Forge:
    """Return the forge of a repository; kind and address default to those of the repository's own address."""
    told = kind if kind is not None else forge_kind(repo)
    if told is None:
        raise unknown_forge(repo)
    if not token or not token.is_one_line:
        raise Stalled(
            f"there is no token, or none of one line, for pull requests on {told};"
            " give spec.bidirectional.forge.tokenSecretRef",
            reason=Reason.INVALID_SPEC,
        )
    place, reach = forge_place(repo, told, url), ForgeHttpOptions(ca, proxy, timeout)
    if told is ForgeKind.GITHUB:
        return GitHubForge(place, token, reach)
    if told is ForgeKind.GITLAB:
        return GitLabForge(place, token, reach)
    return GiteaForge(place, token, reach)
