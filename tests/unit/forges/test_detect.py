"""Detection of a forge from an address, and the address of its API."""

from __future__ import annotations

import pytest

from stoker.domain.errors import Stalled
from stoker.domain.intent.policies import ForgeKind
from stoker.domain.reasons import Reason
from stoker.domain.refs import RepoUrl
from stoker.domain.secrets import Secret
from stoker.forges import forge_for, forge_kind
from stoker.forges.detect import forge_place

GITHUB, GITLAB, GITEA = ForgeKind.GITHUB, ForgeKind.GITLAB, ForgeKind.GITEA
TOKEN = Secret("t0ken")

KINDS = {
    "https://github.com/plant/site.git": GITHUB,
    "https://www.github.com/plant/site": GITHUB,
    "git@github.com:plant/site.git": GITHUB,
    "ssh://git@ssh.github.com:443/plant/site.git": GITHUB,
    "https://plant.ghe.com/a/b": GITHUB,
    "https://gitlab.com/plant/line/site.git": GITLAB,
    "git@gitlab.com:plant/site": GITLAB,
    "ssh://git@altssh.gitlab.com:443/plant/site.git": GITLAB,
    "https://git.plant.example/a/b": None,
    "https://github.com.evil.example/a/b": None,
    "file:///srv/git/a/b": None,
}

PLACES = [
    (GITHUB, "https://github.com/plant/site.git", "", "https://api.github.com", "plant/site"),
    (GITHUB, "git@github.com:plant/site.git", "", "https://api.github.com", "plant/site"),
    (GITHUB, "git@github.com:plant/site", "https://github.com", "https://api.github.com", "plant/site"),
    (GITHUB, "git@github.com:plant/site", "https://api.github.com/", "https://api.github.com", "plant/site"),
    (GITHUB, "https://plant.ghe.com/a/b", "", "https://api.plant.ghe.com", "a/b"),
    (GITHUB, "https://plant.ghe.com/a/b", "https://api.plant.ghe.com", "https://api.plant.ghe.com", "a/b"),
    (GITHUB, "https://git.example:8443/a/b.git", "", "https://git.example:8443/api/v3", "a/b"),
    (GITHUB, "git@git.example:a/b.git", "", "https://git.example/api/v3", "a/b"),
    (GITHUB, "https://x.example/a/b", "https://git.example/api/v3/", "https://git.example/api/v3", "a/b"),
    (GITLAB, "https://gitlab.com/a/b/c/d.git", "", "https://gitlab.com/api/v4", "a/b/c/d"),
    (GITLAB, "ssh://git@git.example:2222/a/b.git", "", "https://git.example/api/v4", "a/b"),
    (GITLAB, "https://x.example/lab/a/b", "https://x.example/lab", "https://x.example/lab/api/v4", "a/b"),
    (GITLAB, "git@x.example:a/b", "https://x.example/lab/api/v4", "https://x.example/lab/api/v4", "a/b"),
    (GITEA, "https://x.example/tea/a/b.git", "https://x.example/tea/", "https://x.example/tea/api/v1", "a/b"),
    (GITEA, "http://10.0.0.1:3000/a/b.git", "http://10.0.0.1:3000", "http://10.0.0.1:3000/api/v1", "a/b"),
]


@pytest.mark.parametrize(("address", "kind"), KINDS.items())
def test_public_forges_are_known_by_their_hosts(address: str, kind: ForgeKind | None) -> None:
    assert forge_kind(RepoUrl(address)) is kind


@pytest.mark.parametrize(("kind", "repo", "url", "api", "project"), PLACES)
def test_the_api_is_at_the_repositorys_host_or_where_it_was_configured(
    kind: ForgeKind, repo: str, url: str, api: str, project: str
) -> None:
    place = forge_place(RepoUrl(repo), kind, url)
    assert (place.api, place.project) == (api, project)


def test_a_host_that_may_be_anything_needs_the_field() -> None:
    with pytest.raises(Stalled, match=r"spec\.bidirectional\.forge") as caught:
        forge_for(RepoUrl("https://git.plant.example/a/b"), TOKEN)
    assert caught.value.reason is Reason.INVALID_SPEC


def test_a_token_is_never_sent_to_a_public_forge_because_no_address_was_given() -> None:
    assert forge_for(RepoUrl("https://git.plant.example/a/b"), TOKEN, kind=GITLAB).host == "git.plant.example"


@pytest.mark.parametrize("kind", list(ForgeKind))
@pytest.mark.parametrize("repo", ["https://git.example/only", "https://git.example/", "file:///srv/a/b"])
def test_a_path_that_is_no_repository_is_refused(kind: ForgeKind, repo: str) -> None:
    with pytest.raises(Stalled, match=r"spec\.bidirectional\.forge"):
        forge_for(RepoUrl(repo), TOKEN, kind=kind)


def test_github_has_no_groups_in_groups() -> None:
    with pytest.raises(Stalled, match=r"spec\.bidirectional\.forge"):
        forge_for(RepoUrl("https://github.com/a/b/c"), TOKEN)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x.example",
        "https://",
        "x.example",
        "https://u:p@x.example",
        "https://x.example/?a=b",
        "https://x:y",
    ],
)
def test_an_address_that_is_none_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(Stalled, match=r"spec\.bidirectional\.forge\.url") as caught:
        forge_for(RepoUrl("https://git.example/a/b"), TOKEN, kind=GITEA, url=url)
    assert "u:p" not in caught.value.message


@pytest.mark.parametrize("token", ["", "two\nlines"])
def test_a_token_that_cannot_be_sent_is_refused(token: str) -> None:
    with pytest.raises(Stalled, match="tokenSecretRef"):
        forge_for(RepoUrl("https://github.com/a/b"), Secret(token))


def test_names_are_escaped_in_paths() -> None:
    assert forge_place(RepoUrl("https://git.example/a%20b/c;d"), GITLAB).quoted == "a%2520b/c%3Bd"
