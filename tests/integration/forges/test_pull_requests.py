"""Pull requests on a real Gitea, and on doubles of GitHub and GitLab that check each request."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

from stoker.domain.errors import Retry, StokerError
from stoker.domain.intent.policies import ForgeKind
from stoker.domain.reasons import Reason
from stoker.domain.refs import RepoUrl
from stoker.domain.secrets import Secret
from stoker.forges import (
    Forge,
    ForgeRefused,
    ForgeUnavailable,
    PullRequest,
    PullRequestDraft,
    PullRequestState,
    forge_for,
)
from stoker_testkit.forges.forge_double import ForgeDouble, RequestRecord
from stoker_testkit.forges.gitea import GiteaRefused, GiteaRepository, GiteaServer
from stoker_testkit.forges.github_pull_requests import GitHubForgeDouble
from stoker_testkit.forges.gitlab_merge_requests import GitLabForgeDouble
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.services.http_proxy import HttpProxy
from stoker_testkit.wait_until import eventually

BRANCH = "gateway-changes/site1+a/gw-1"
DRAFT = PullRequestDraft(BRANCH, "main", "Changes of gw-1", "Two views", ("gateway-change", "auto"))
_NAMES = itertools.count()


class Ground(Protocol):
    """One forge with one repository, and what people do there."""

    forge: Forge

    def push(self, branch: str) -> str: ...
    def merge(self, number: int) -> str: ...
    def close(self, number: int) -> None: ...
    def label(self, number: int, name: str) -> None: ...
    def seen(self, number: int) -> tuple[str, str, set[str]]: ...
    def check(self) -> None: ...


class DoubleGround:
    def __init__(self, double: ForgeDouble, kind: ForgeKind, project: str) -> None:
        self.double, self.project = double, project
        double.add_repository(project)
        self.forge = self.with_token(kind, double.token)

    def with_token(self, kind: ForgeKind, token: str, *, proxy: str = "", timeout: float = 10.0) -> Forge:
        repo = RepoUrl(self.double.repo_url(self.project))
        return forge_for(repo, Secret(token), kind=kind, proxy=proxy, timeout=timeout)

    def push(self, branch: str) -> str:
        return self.double.push(self.project, branch)

    def merge(self, number: int) -> str:
        return self.double.merge(self.project, number)

    def close(self, number: int) -> None:
        self.double.close(self.project, number)

    def label(self, number: int, name: str) -> None:
        self.double.requests(self.project)[number - 1].labels.append(name)

    def old_requests(self, count: int) -> None:
        there = self.double.requests(self.project)
        for number in range(len(there) + 1, len(there) + count + 1):
            there.append(RequestRecord(number, BRANCH, "main", "old", "", "0" * 40, state="closed"))

    def seen(self, number: int) -> tuple[str, str, set[str]]:
        one = self.double.requests(self.project)[number - 1]
        return one.title, one.body, set(one.labels)

    def check(self) -> None:
        assert self.double.complaints == []


class GiteaGround:
    def __init__(self, gitea: GiteaServer) -> None:
        self.repository: GiteaRepository = gitea.create_repository(f"forge-{next(_NAMES)}")
        repo = RepoUrl(self.repository.clone_url)
        self.forge = forge_for(repo, Secret(gitea.token), kind=ForgeKind.GITEA, url=gitea.url)

    def push(self, branch: str) -> str:
        number = next(_NAMES)
        return self.repository.commit(f"{number}.txt", b"x", new_branch=branch)

    def merge(self, number: int) -> str:
        def merged() -> bool:
            try:  # it says 405 while it looks whether a merge would work
                self.repository.request("POST", f"/pulls/{number}/merge", {"Do": "merge"})
            except GiteaRefused as error:
                if " 405 " not in str(error):
                    raise
                return False
            return True

        eventually(merged, 20.0)
        return str(self.repository.request("GET", f"/pulls/{number}")["merge_commit_sha"])

    def close(self, number: int) -> None:
        self.repository.request("PATCH", f"/pulls/{number}", {"state": "closed"})

    def label(self, number: int, name: str) -> None:
        made = self.repository.request("POST", "/labels", {"name": name, "color": "#aabbcc"})
        self.repository.request("POST", f"/issues/{number}/labels", {"labels": [made["id"]]})

    def seen(self, number: int) -> tuple[str, str, set[str]]:
        one = self.repository.request("GET", f"/pulls/{number}")
        return one["title"], one["body"], {label["name"] for label in one["labels"]}

    def check(self) -> None:
        """It is the real one."""


@pytest.fixture
def github() -> Iterator[DoubleGround]:
    with GitHubForgeDouble.start() as double:
        yield DoubleGround(double, ForgeKind.GITHUB, "plant/site")


@pytest.fixture
def gitlab() -> Iterator[DoubleGround]:
    with GitLabForgeDouble.start() as double:
        yield DoubleGround(double, ForgeKind.GITLAB, "plant/line-1/site")


@pytest.fixture(
    params=[
        "github",
        "gitlab",
        pytest.param("gitea", marks=[pytest.mark.xdist_group("gitea"), pytest.mark.services]),
    ],
)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    name = request.param
    ground = (
        GiteaGround(request.getfixturevalue("gitea")) if name == "gitea" else request.getfixturevalue(name)
    )
    yield ground
    ground.check()


@pytest.fixture(params=["github", "gitlab"])
def double(request: pytest.FixtureRequest) -> DoubleGround:
    ground = request.getfixturevalue(request.param)
    assert isinstance(ground, DoubleGround)
    return ground


async def refused(work: Callable[[], object], forge: DoubleGround) -> Retry:
    with pytest.raises(Retry) as caught:
        await work()  # type: ignore[misc]
    assert forge.double.token not in caught.value.message
    assert "\n" not in caught.value.message
    return caught.value


async def test_a_request_is_opened_found_and_read(ground: Ground) -> None:
    head = ground.push(BRANCH)
    assert await ground.forge.find(BRANCH, "main") is None
    made = await ground.forge.create(DRAFT)
    assert (made.state, made.branch, made.base, made.head) == (PullRequestState.OPEN, BRANCH, "main", head)
    assert made.url.startswith("http")
    assert made.warning == ""
    assert made.merged_commit is None
    assert ground.seen(made.number) == ("Changes of gw-1", "Two views", {"gateway-change", "auto"})
    assert await ground.forge.find(BRANCH, "main") == made
    assert await ground.forge.find(BRANCH) == made
    assert await ground.forge.find(BRANCH, "other") is None
    assert await ground.forge.find("gateway-changes/site1") is None
    assert await ground.forge.state(made.number) == made


async def test_an_update_says_it_anew_and_leaves_the_labels_of_people(ground: Ground) -> None:
    ground.push(BRANCH)
    made = await ground.forge.create(PullRequestDraft(BRANCH, "main", "First"))
    ground.label(made.number, "urgent")
    updated = await ground.forge.update(made.number, title="Second", body="More", labels=("auto", "Urgent"))
    assert updated.title == "Second"
    assert ground.seen(made.number)[:2] == ("Second", "More")
    assert {name.lower() for name in ground.seen(made.number)[2]} == {"urgent", "auto"}
    await ground.forge.update(made.number, title="Second", body="More", labels=("auto",))
    assert "auto" in ground.seen(made.number)[2]


async def test_a_request_that_is_there_is_updated_instead_of_opened(ground: Ground) -> None:
    ground.push(BRANCH)
    first = await ground.forge.create(PullRequestDraft(BRANCH, "main", "First"))
    second = await ground.forge.create(DRAFT)
    assert second.number == first.number
    assert ground.seen(first.number) == ("Changes of gw-1", "Two views", {"gateway-change", "auto"})


async def test_a_merged_request_is_known_with_its_commit(ground: Ground) -> None:
    ground.push(BRANCH)
    made = await ground.forge.create(DRAFT)
    commit = ground.merge(made.number)
    state = await ground.forge.state(made.number)
    assert (state.state, state.merged_commit) == (PullRequestState.MERGED, commit)
    assert await ground.forge.find(BRANCH, "main") == state


async def test_a_closed_request_is_known_and_the_next_one_takes_its_place(ground: Ground) -> None:
    ground.push(BRANCH)
    made = await ground.forge.create(DRAFT)
    ground.close(made.number)
    found = await ground.forge.find(BRANCH, "main")
    assert found is not None
    assert (found.number, found.state, found.merged_commit) == (made.number, PullRequestState.CLOSED, None)
    again = await ground.forge.create(DRAFT)
    assert again.number > made.number
    assert await ground.forge.find(BRANCH, "main") == again


async def test_titles_and_descriptions_are_cut_to_what_forges_take(ground: Ground) -> None:
    ground.push(BRANCH)
    made = await ground.forge.create(PullRequestDraft(BRANCH, "main", "t\n" * 400, "b" * 100_000))
    title, body, _ = ground.seen(made.number)
    assert title.startswith("t t t")
    assert title.endswith("…")
    assert len(title) <= 250
    assert len(body) <= 60_000
    assert body.endswith("a description may not be longer.")


async def test_a_branch_that_is_not_there_is_refused_with_the_status_alone(ground: Ground) -> None:
    with pytest.raises(ForgeRefused) as caught:
        await ground.forge.create(DRAFT)
    assert caught.value.reason is Reason.FORGE_REFUSED
    assert caught.value.after
    assert re.search(r" \(status 4\d\d\)$", caught.value.message)


async def test_a_request_that_is_not_there_is_refused(ground: Ground) -> None:
    with pytest.raises(ForgeRefused, match="knows no such repository"):
        await ground.forge.state(404)


async def test_the_requests_of_forks_are_not_ours(double: DoubleGround) -> None:
    double.push(BRANCH)
    double.double.fork_request(double.project, BRANCH)
    assert await double.forge.find(BRANCH, "main") is None
    made = await double.forge.create(DRAFT)
    double.double.fork_request(double.project, BRANCH)
    assert await double.forge.find(BRANCH, "main") == made
    double.check()


async def test_a_branch_with_many_requests_is_read_in_pages(double: DoubleGround) -> None:
    double.old_requests(25)
    found = await double.forge.find(BRANCH, "main")
    assert found is not None
    assert found.number == 25
    assert len(double.double.asked) == 2
    double.old_requests(60)
    double.double.asked.clear()
    assert await double.forge.find(BRANCH, "main") is not None
    assert len(double.double.asked) == 3
    double.check()


async def test_a_fast_forwarded_merge_is_the_branchs_own_commit(gitlab: DoubleGround) -> None:
    assert isinstance(gitlab.double, GitLabForgeDouble)
    gitlab.double.fast_forward = True
    head = gitlab.push(BRANCH)
    made = await gitlab.forge.create(DRAFT)
    gitlab.merge(made.number)
    assert (await gitlab.forge.state(made.number)).merged_commit == head


async def test_a_wrong_token_is_reported_and_not_shown(double: DoubleGround) -> None:
    forge = double.with_token(double.forge.kind, planted("wrong-token"))
    with pytest.raises(ForgeRefused, match="does not accept the token") as caught:
        await forge.find(BRANCH)
    assert planted("wrong-token") not in caught.value.message


@pytest.mark.xdist_group("gitea")
async def test_a_wrong_token_is_reported_by_gitea(gitea: GiteaServer) -> None:
    repo = RepoUrl(gitea.create_repository(f"forge-{next(_NAMES)}").clone_url)
    forge = forge_for(repo, Secret(planted("wrong-token")), kind=ForgeKind.GITEA, url=gitea.url)
    with pytest.raises(ForgeRefused, match=r"does not accept the token \(status 401\)$") as caught:
        await forge.find(BRANCH)
    assert planted("wrong-token") not in caught.value.message


@pytest.mark.parametrize("status", [400, 403, 404, 409, 422])
async def test_refusals_are_tried_again_and_quote_nothing_of_the_answer(
    double: DoubleGround, status: int
) -> None:
    double.push(BRANCH)
    double.double.fail_next(status, f"not for you,\n {double.double.token}")
    error = await refused(lambda: double.forge.create(DRAFT), double)
    assert isinstance(error, ForgeRefused)
    assert error.after == 60
    assert f"(status {status})" in error.message
    assert "not for you" not in error.message
    assert double.project in error.message
    assert (await double.forge.create(DRAFT)).number == 1


async def test_a_forge_in_trouble_is_tried_again(double: DoubleGround) -> None:
    for status in (500, 502, 503):
        double.double.fail_next(status, "We had a problem")
        error = await refused(lambda: double.forge.find(BRANCH), double)
        assert isinstance(error, ForgeUnavailable)
        assert f"(status {status})" in error.message
        assert "problem" not in error.message
        assert error.reason is Reason.SERVICE_UNREACHABLE


@pytest.mark.parametrize("status", [429, 403])
async def test_a_rate_limit_names_when_to_come_back(double: DoubleGround, status: int) -> None:
    double.double.fail_next(status, "You have exceeded a secondary rate limit", retry_after=42)
    error = await refused(lambda: double.forge.find(BRANCH), double)
    assert isinstance(error, ForgeUnavailable)
    assert error.after == 42
    assert "asked too often" in error.message
    assert "secondary" not in error.message


async def test_silence_ends_after_a_while(double: DoubleGround) -> None:
    forge = double.with_token(double.forge.kind, double.double.token, timeout=0.3)
    double.double.silent()
    error = await refused(lambda: forge.find(BRANCH), double)
    assert isinstance(error, ForgeUnavailable)
    assert "did not answer within 0.3 s" in error.message


async def test_a_redirect_is_not_followed_with_the_token(double: DoubleGround) -> None:
    double.double.fail_next(301, "Moved Permanently")
    error = await refused(lambda: double.forge.find(BRANCH), double)
    assert isinstance(error, ForgeRefused)
    assert "redirect" in error.message
    assert len(double.double.asked) == 1


async def test_an_answer_that_is_none_of_a_forge_is_refused(double: DoubleGround) -> None:
    double.double.fail_next(200, "hello")
    error = await refused(lambda: double.forge.find(BRANCH), double)
    assert isinstance(error, ForgeRefused)
    assert "cannot be read" in error.message


async def test_labels_that_cannot_be_set_do_not_cost_the_request(github: DoubleGround) -> None:
    github.push(BRANCH)
    github.double.fail_next(403, "Resource not accessible by integration", path="/labels")
    made = await github.forge.create(DRAFT)
    assert made.number == 1
    assert "labels could not be set" in made.warning
    assert "does not allow this to the token (status 403)" in made.warning
    assert "Resource not accessible" not in made.warning
    again = await github.forge.update(1, title="t", body="b", labels=DRAFT.labels)
    assert again.warning == ""
    assert github.seen(1)[2] == set(DRAFT.labels)
    github.check()


async def test_labels_that_are_set_are_not_sent_again(github: DoubleGround) -> None:
    github.push(BRANCH)
    await github.forge.create(DRAFT)
    github.double.asked.clear()
    await github.forge.update(1, title="t", body="b", labels=DRAFT.labels)
    assert [method for method, _ in github.double.asked] == ["PATCH"]


async def test_nothing_new_on_the_branch_is_a_refusal(github: DoubleGround) -> None:
    github.double.push(github.project, BRANCH, github.double.push(github.project, "main"))
    error = await refused(lambda: github.forge.create(DRAFT), github)
    assert "has nothing new" in error.message
    assert "No commits between" not in error.message


async def test_a_forge_is_reached_through_a_proxy(double: DoubleGround) -> None:
    double.push(BRANCH)
    with HttpProxy.start() as proxy:
        forge = double.with_token(double.forge.kind, double.double.token, proxy=proxy.address)
        made = await forge.create(DRAFT)
        assert isinstance(made, PullRequest)
        assert proxy.passages
        assert all(passage.allowed for passage in proxy.passages)


async def test_an_unreachable_forge_is_reported_with_the_host_alone(double: DoubleGround) -> None:
    forge = forge_for(
        RepoUrl("http://127.0.0.1:1/plant/site.git"), Secret("t0ken"), kind=double.forge.kind, timeout=5.0
    )
    with pytest.raises(StokerError) as caught:
        await forge.find(BRANCH)
    assert isinstance(caught.value, ForgeUnavailable)
    assert "127.0.0.1 cannot be reached" in caught.value.message
    assert "plant/site" not in caught.value.message
