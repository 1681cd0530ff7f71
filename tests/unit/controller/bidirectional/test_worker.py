"""The controller's side of bidirectional sync: real git, ConfigMaps in a dict, and a forge in memory."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from stoker.controller.bidirectional.rebase import rebase_changes
from stoker.controller.bidirectional.types import BidirectionalResult, ChangeSetSender
from stoker.controller.bidirectional.worker import FIRST_PAUSE, STALE_SECONDS
from stoker.domain.errors import Retry, Stalled
from stoker.domain.git_objects import BlobId, FileVersion, TreeChange, blob_of
from stoker.domain.intent.intent import GatewayIntent
from stoker.domain.intent.policies import BidirectionalPolicy, ConflictStrategy
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.protocol import ChangeAction, ChangedFile, ChangeSet, ChangeSetReply, ChangeSetResult
from stoker.domain.protocol.change_set_codec import chunk_key, encode
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId
from stoker.forges import PullRequest, PullRequestDraft, PullRequestState
from stoker.git.commit.proposal_branch import (
    MergedFile,
    ProposalBase,
    ProposalBranches,
    ProposedFiles,
    PushedProposal,
)
from stoker.git.commit.types import NewCommit
from stoker_testkit.environments.bidirectional_environment import BRANCH, KEY, InProcessController, working
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.repositories.bare_repository import FileEntry, Repository, executable

VIEW, OTHER = "projects/hmi/view.json", "projects/hmi/other.json"
LINES = "one\ntwo\nthree\nfour\nfive\n"


@dataclass
class World(InProcessController):
    """With an agent that is played by hand."""

    clock: ManualClock
    number: int = 0

    def send(self, *files: ChangedFile, base: CommitId | None = None, gateway: str = "press") -> str:
        self.number += 1
        name = f"20260101-0000{self.number:02}"
        changes = ChangeSet(
            name, gateway, base or self.repository.tip(), tuple(files), "2026-01-01T00:00:00Z"
        )
        self.put(name, encode(changes))
        return name

    def edit(self, path: str, content: str | None) -> ChangedFile:
        """As the agent tells of it, made on top of what git has."""
        repo_path = f"site/{path}"
        base = self.repository.files().get(repo_path)
        old = "" if base is None else str(blob_of(base))
        if content is None:
            return ChangedFile(path, repo_path, ChangeAction.DELETED, old)
        raw = content.encode()
        return ChangedFile(path, repo_path, ChangeAction.WRITTEN, old, str(blob_of(raw)), raw)


@asynccontextmanager
async def world(folder: Path, **policy: object) -> AsyncIterator[World]:
    repository = Repository.create(folder / "plant.git")
    repository.commit({f"site/{VIEW}": LINES, f"site/{OTHER}": "{}"})
    chosen = replace(BidirectionalPolicy(enabled=True, watch_paths=("projects/**",)), **policy)  # type: ignore[arg-type]
    made = World(repository, ManualClock(), chosen, folder)
    try:
        yield made
    finally:
        await made.acceptor.close()


async def test_an_edit_becomes_a_commit_on_a_branch_of_its_gateway_and_a_request(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        name = it.send(it.edit(VIEW, "new\n"), it.edit("projects/hmi/more.json", "{}"), it.edit(OTHER, None))
        await it.rounds()
        assert it.published["press"] == ChangeSetReply(name)
        assert it.repository.read(f"site/{VIEW}", BRANCH) == b"new\n"
        assert set(it.repository.files(BRANCH)) == {f"site/{VIEW}", "site/projects/hmi/more.json"}
        assert it.repository.read(f"site/{VIEW}") == LINES.encode(), "the followed ref is not ours to write"
        message = it.repository.messages(BRANCH)[0]
        assert message.startswith("Changes from gateway press\n")
        assert f"Change-Set: {name}" in message
        assert f"Base-Commit: {it.repository.tip()}" in message
        assert f"changed: site/{VIEW}" in message
        assert f"deleted: site/{OTHER}" in message
        assert "added: site/projects/hmi/more.json" in message
        (request,) = it.forge.open
        assert (request.branch, request.base, request.title) == (
            BRANCH,
            "main",
            "Changes from gateway press",
        )
        assert f"`site/{VIEW}`" in it.forge.bodies[1]
        assert it.forge.labels[1] == it.policy.pr_labels
        assert it.standings["press"].request == request.url
        assert it.opened == 1
        assert not any(it.maps.values()), "answered change sets are removed from the ConfigMaps"


async def test_more_sets_are_more_commits_in_the_same_request(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.send(it.edit(VIEW, "new\n"))
        await it.rounds()
        it.send(it.edit(OTHER, "[]"))
        await it.rounds()
        assert len(it.repository.messages(BRANCH)) == 3
        assert it.repository.read(f"site/{VIEW}", BRANCH) == b"new\n"
        assert [one.number for one in it.forge.requests] == [1]
        assert it.opened == 1


async def test_what_git_has_already_is_recorded_without_a_commit(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        before = it.repository.tip()
        edit = it.edit(VIEW, "new\n")
        it.repository.commit({f"site/{VIEW}": "new\n"})
        name = it.send(edit, base=before)
        await it.rounds()
        assert it.published["press"] == ChangeSetReply(name)
        assert not it.repository.has_branch(BRANCH)
        assert not it.forge.requests


async def test_changes_of_other_lines_are_put_together(tmp_path: Path) -> None:
    async with world(tmp_path, conflicts=ConflictStrategy.MANUAL) as it:
        before = it.repository.tip()
        edit = it.edit(VIEW, LINES.replace("five", "FIVE"))
        it.repository.commit({f"site/{VIEW}": LINES.replace("one", "ONE")})
        it.send(edit, base=before)
        await it.rounds()
        both = LINES.replace("five", "FIVE").replace("one", "ONE")
        assert it.repository.read(f"site/{VIEW}", BRANCH) == both.encode()
        assert not it.standings["press"].conflicts


async def test_lines_are_not_put_together_into_broken_json(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.repository.commit({f"site/{OTHER}": '{\n"a": 1,\n\n"b": 2\n}\n'})
        before = it.repository.tip()
        edit = it.edit(OTHER, '{\n"a": 1\n\n}\n')
        it.repository.commit({f"site/{OTHER}": '{\n"c": 0,\n"a": 1,\n\n"b": 2\n}\n'})
        it.send(edit, base=before)
        await it.rounds()
        assert (
            it.repository.read(f"site/{OTHER}", BRANCH) == edit.content or not it.standings["press"].conflicts
        )


async def test_a_conflict_is_proposed_and_marked_whichever_side_wins(tmp_path: Path) -> None:
    for strategy in ConflictStrategy:
        async with world(tmp_path / strategy, conflicts=strategy) as it:
            before = it.repository.tip()
            edit, other = it.edit(VIEW, "gateway\n"), it.edit(OTHER, "[]")
            it.repository.commit({f"site/{VIEW}": "git\n"})
            it.send(edit, other, base=before)
            await it.rounds()
            assert it.repository.read(f"site/{VIEW}", BRANCH) == b"gateway\n"
            assert it.standings["press"].conflicts == (VIEW,)
            assert it.standings["press"].reason is Reason.CONFLICT_DETECTED
            assert "in conflict" in it.forge.bodies[1]
            holds = () if strategy is ConflictStrategy.GIT_WINS else (OTHER, VIEW)
            assert it.published["press"].holds == holds
            it.forge.merge(1)
            await it.clock.advance(61)
            await it.rounds()
            assert it.published["press"].holds == ()
            assert "press" not in it.standings


async def test_a_merge_ends_no_hold_before_its_gateway_may_have_the_merge(tmp_path: Path) -> None:
    async with world(tmp_path, conflicts=ConflictStrategy.GATEWAY_WINS) as it:
        it.send(it.edit(VIEW, "new\n"))
        await it.rounds()
        it.behind = frozenset({"press"})  # the merge waits for an approval, or for a stage
        it.forge.merge(1)
        await it.clock.advance(61)
        await it.rounds()
        assert it.published["press"].holds == (VIEW,)
        it.behind = frozenset({"saw"})
        await it.rounds()
        assert not it.published["press"].holds, "at once, and not when requests are looked after again"
        assert "press" not in it.standings


async def test_a_closed_request_ends_its_holds_and_the_next_set_begins_anew(tmp_path: Path) -> None:
    async with world(tmp_path, conflicts=ConflictStrategy.GATEWAY_WINS) as it:
        it.send(it.edit(VIEW, "unwanted\n"))
        await it.rounds()
        rejected = it.repository.tip(BRANCH)
        it.forge.close(1)
        await it.clock.advance(61)
        await it.rounds()
        assert it.published["press"].holds == ()
        it.send(it.edit(OTHER, "[]"))
        await it.rounds()
        assert it.repository.read(f"site/{VIEW}", BRANCH) == LINES.encode(), (
            "what was turned down is not asked again"
        )
        assert it.repository.read(f"site/{OTHER}", BRANCH) == b"[]"
        it.repository.git("merge-base", "--is-ancestor", rejected, BRANCH)
        assert [one.state for one in it.forge.requests] == [PullRequestState.CLOSED, PullRequestState.OPEN]


async def test_a_squashed_request_whose_branch_stays_is_over(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.send(it.edit(VIEW, "new\n"))
        await it.rounds()
        it.forge.merge(1, squash=True, keep_branch=True)
        await it.rounds()
        assert "press" not in it.standings
        it.send(it.edit(OTHER, "[]"))
        await it.rounds()
        changed = it.repository.git("diff", "--name-only", "main", BRANCH).decode().split()
        assert changed == [f"site/{OTHER}"]
        assert len(it.forge.open) == 1


async def test_a_new_leader_repeats_nothing_and_keeps_what_is_held(tmp_path: Path) -> None:
    async with world(tmp_path, conflicts=ConflictStrategy.GATEWAY_WINS) as it:
        it.send(it.edit(VIEW, "new\n"))
        it.look()
        await working()
        await it.restart()  # pushed and requested, and no reply was published
        await it.rounds()
        assert len(it.repository.messages(BRANCH)) == 2
        assert [one.number for one in it.forge.requests] == [1]
        assert it.published["press"].holds == (VIEW,)
        left = dict(it.published)
        await it.restart(forgetful=True)
        await it.rounds()
        assert it.published == left
        assert it.standings["press"].request == it.forge.requests[0].url
        it.forge.merge(1)
        await it.restart(forgetful=True)
        await it.rounds()
        assert not it.published["press"].holds


async def test_files_that_may_not_flow_back_are_refused_by_name_and_the_rest_goes_on(tmp_path: Path) -> None:
    async with world(tmp_path, max_file_bytes=100, max_files_per_pr=2) as it:
        smuggled = replace(it.edit(VIEW, "x"), repo_path="ci/deploy.sh")
        it.send(
            it.edit("config/db.json", "{}"),
            it.edit("projects/secret/key", "k"),
            it.edit("projects/hmi/lib.jar", "j"),
            it.edit("projects/.resources/x", "j"),
            it.edit("projects/hmi/large", "x" * 101),
            smuggled,
            it.edit("projects/hmi/a", "1"),
            it.edit("projects/hmi/b", "2"),
            it.edit("projects/hmi/c", "3"),
        )
        await it.rounds()
        answer = it.published["press"]
        assert answer.result is ChangeSetResult.RECORDED
        assert sorted(answer.refused) == [
            "config/db.json",
            "projects/.resources/x",
            "projects/hmi/c",
            "projects/hmi/large",
            "projects/hmi/lib.jar",
            VIEW,
            "projects/secret/key",
        ]
        assert "ci/deploy.sh" not in it.repository.files(BRANCH)
        assert it.repository.read("site/projects/hmi/b", BRANCH) == b"2"
        assert len(it.standings["press"].refused) == 7


async def test_what_a_ci_service_runs_is_refused_by_name_whatever_the_agent_says(tmp_path: Path) -> None:
    paths = ["projects/Jenkinsfile", "projects/.woodpecker.yml", "projects/.forgejo/workflows/ci.yaml"]
    async with world(tmp_path) as it:
        it.send(*(it.edit(path, "run: evil") for path in paths), it.edit("projects/hmi/a", "1"))
        await it.rounds()
        assert sorted(it.published["press"].refused) == sorted(paths)
        assert set(it.repository.files(BRANCH)) == {
            f"site/{VIEW}", f"site/{OTHER}", "site/projects/hmi/a",
        }  # fmt: skip
        assert "site/projects/Jenkinsfile is named jenkinsfile" in it.standings["press"].message


async def test_a_set_that_waits_for_room_goes_when_what_took_it_was_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.controller.bidirectional.holds.MAX_BYTES", 60)
    async with world(tmp_path, conflicts=ConflictStrategy.MANUAL) as it:
        it.send(it.edit(VIEW, "new\n"))
        await it.rounds()
        assert it.published["press"].holds == (VIEW,)
        second = it.send(it.edit("projects/hmi/a.json", "1"), it.edit("projects/hmi/b.json", "2"))
        await it.rounds()
        assert it.published["press"].id != second
        assert it.standings["press"].reason is Reason.CHANGE_PENDING
        it.forge.merge(1)
        for _ in range(3):
            await it.clock.advance(301)
            await it.rounds(1)
        assert it.published["press"].id == second
        assert it.repository.read("site/projects/hmi/b.json", BRANCH) == b"2"


async def test_a_set_for_which_there_can_never_be_room_is_refused_and_keeps_no_other_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.controller.bidirectional.holds.MAX_BYTES", 60)
    async with world(tmp_path, conflicts=ConflictStrategy.MANUAL) as it:
        it.send(*(it.edit(f"projects/hmi/{name}.json", "1") for name in "abc"))
        await it.rounds()
        assert it.published["press"].result is ChangeSetResult.REFUSED
        assert "3 files at once" in it.standings["press"].message
        second = it.send(it.edit(VIEW, "new\n"))
        await it.rounds()
        assert it.published["press"] == ChangeSetReply(second, holds=(VIEW,))


async def test_a_set_that_waits_keeps_no_other_gateway_waiting(tmp_path: Path) -> None:
    def nobody_knows() -> GatewayIntent:
        raise Stalled("its profile is gone", reason=Reason.INVALID_SPEC)

    async with world(tmp_path) as it:
        it.send(it.edit(VIEW, "1"))
        stuck = {"press": ChangeSetSender("press", "press", "press", nobody_knows)}
        it.acceptor.look(KEY, replace(it.ask(), senders=stuck), BidirectionalResult())
        await working()
        other = ChangeSet("20260101-000009", "mill", it.repository.tip(), (it.edit(VIEW, "mill's"),))
        it.maps["map-0"] |= {chunk_key("mill", other.id, 0): encode(other)[0]}
        mill = replace(it.intent(), gateway="mill", values=TemplateValues("mill", namespace="plant"))
        ask = replace(
            it.ask(), senders={**stuck, "mill": ChangeSetSender("mill", "mill", "mill", lambda: mill)}
        )
        it.acceptor.look(KEY, ask, BidirectionalResult())
        await working()
        said = it.acceptor.look(KEY, ask, BidirectionalResult())
        assert said.answers == {"mill": ChangeSetReply(other.id)}
        assert said.standings["press"].reason is Reason.INVALID_SPEC


async def test_a_request_takes_no_more_files_than_it_may_have(tmp_path: Path) -> None:
    async with world(tmp_path, max_files_per_pr=2) as it:
        it.send(it.edit(VIEW, "new\n"), it.edit(OTHER, "[]"))
        await it.rounds()
        it.repository.commit({"site/more": "of others\n", "site/yet more": "of others\n"})
        third = "projects/hmi/third.json"
        it.send(it.edit(VIEW, "newer\n"), it.edit(third, "{}"))
        await it.rounds()
        assert it.published["press"].refused == (third,)
        assert "2 files that the open request may have" in it.standings["press"].message
        assert it.repository.read(f"site/{VIEW}", BRANCH) == b"newer\n", "what is in it already may change"
        assert f"site/{third}" not in it.repository.files(BRANCH)
        it.forge.merge(1)
        name = it.send(it.edit(third, "{}"))  # as the agent does when the ref has moved
        await it.rounds()
        assert it.published["press"] == ChangeSetReply(name)
        assert it.repository.read(f"site/{third}", BRANCH) == b"{}"
        assert len(it.forge.requests) == 2
        it.policy = replace(it.policy, create_pr=False)
        it.send(it.edit(VIEW, "1"), it.edit(OTHER, "2"))
        await it.rounds()
        assert not it.published["press"].refused, "a missing request cannot be merged"


async def test_a_limit_that_cannot_be_counted_keeps_nothing_from_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, max_files_per_pr=1) as it:
        it.send(it.edit(VIEW, "new\n"))
        await it.rounds()
        it.repository.commit({"site/more": "of others\n"})
        monkeypatch.setattr("stoker.git.commit.merge_base.MAX_SECONDS", 0.0)  # no history comes in that time
        name = it.send(it.edit(OTHER, "[]"))
        await it.rounds()
        assert it.published["press"] == ChangeSetReply(name)
        assert it.repository.read(f"site/{OTHER}", BRANCH) == b"[]"


@pytest.mark.parametrize("noticed", [True, False], ids=["looked after", "with the next set"])
async def test_what_a_full_request_had_no_room_for_may_be_asked_again_once_it_is_closed(
    tmp_path: Path, noticed: bool
) -> None:
    third = "projects/hmi/third.json"
    async with world(tmp_path, max_files_per_pr=1) as it:
        it.send(it.edit(VIEW, "new\n"))
        await it.rounds()
        it.send(it.edit(OTHER, "[]"))
        await it.rounds()
        assert (it.published["press"].refused, it.published["press"].over) == ((OTHER,), "")
        last = it.send(it.edit(VIEW, "newer\n"))
        await it.rounds()
        assert it.published["press"] == ChangeSetReply(last)
        it.forge.close(1)
        if noticed:
            await it.clock.advance(61)
            await it.rounds()
            assert it.published["press"] == ChangeSetReply(last, over=last)
        name = it.send(it.edit(third, "{}"))
        await it.rounds()
        assert it.published["press"] == ChangeSetReply(name, over=last), "it stays published"
        it.send(it.edit(OTHER, "[]"))
        await it.rounds()
        assert (it.published["press"].refused, it.published["press"].over) == ((OTHER,), last)


async def test_a_set_of_which_nothing_may_go_is_refused_and_no_branch_made(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.send(it.edit("config/db.json", "{}"))
        await it.rounds()
        assert it.published["press"].result is ChangeSetResult.REFUSED
        assert it.standings["press"].reason is Reason.CHANGE_REFUSED
        assert not it.repository.has_branch(BRANCH)


async def test_damaged_and_foreign_sets_are_refused_and_taken_out(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        for spoil in (lambda raw: raw[:-1] + b"?", lambda raw: b"{}\n" + raw, lambda raw: b""):
            name = it.send(it.edit(VIEW, "new\n"))
            place = chunk_key("press", name, 0)
            it.maps["map-0"][place] = spoil(it.maps["map-0"][place])
            await it.rounds()
            assert it.published["press"].id == name
            assert it.published["press"].result is ChangeSetResult.REFUSED
            assert not any(it.maps.values())
        it.send(it.edit(VIEW, "new\n"), gateway="saw")
        await it.rounds()
        assert "another gateway" in it.published["press"].message
        assert not it.repository.has_branch(BRANCH)


async def test_a_set_that_ended_the_process_is_refused_by_the_next_leader_and_named(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        name = it.send(it.edit(VIEW, "new\n"))
        it.process_ends_when_marked = True
        it.look()
        await working()
        assert it.attempts["map-0"], "the attempt is stored before anything is decoded"
        assert not it.published
        await it.restart()
        await it.rounds()
        assert (it.published["press"].id, it.published["press"].result) == (name, ChangeSetResult.REFUSED)
        assert it.standings["press"].reason is Reason.CHANGE_REFUSED
        assert f"change set {name} of gateway press is skipped" in it.standings["press"].message
        assert not any(it.maps.values()), "the next leader finds nothing of it"
        assert not it.repository.has_branch(BRANCH)
        later = it.send(it.edit(VIEW, "newer\n"))
        await it.rounds()
        assert it.published["press"] == ChangeSetReply(later), "another set of that gateway is taken"


async def test_a_set_that_was_decoded_and_waits_for_git_is_taken_by_the_next_leader(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        name = it.send(it.edit(VIEW, "new\n"))
        it.commit = it.repository.tip()
        refs = it.repository.path / "refs"
        away = refs.rename(tmp_path / "refs")
        it.look()
        await working()
        assert it.attempts == {"map-0": ""}, "it was decoded, whatever else failed"
        assert not it.published
        away.rename(refs)
        await it.restart()
        await it.rounds()
        assert it.published["press"].id == name
        assert it.published["press"].result is ChangeSetResult.RECORDED


async def test_half_a_set_waits_and_is_taken_out_in_the_end(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        name = it.send(it.edit(VIEW, "new\n"))
        it.maps["map-1"] = {chunk_key("press", name, 1): it.maps["map-0"].pop(chunk_key("press", name, 0))}
        it.maps["map-2"] = {chunk_key("stranger", name, 0): b"?"}
        await it.rounds()
        assert "press" not in it.published
        assert any(it.maps.values())
        await it.clock.advance(STALE_SECONDS + 1)
        await it.rounds()
        assert not any(it.maps.values())


async def test_a_forge_that_refuses_keeps_nothing_from_git(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.forge.error = Retry("forge.test says no", reason=Reason.FORGE_REFUSED)
        name = it.send(it.edit(VIEW, "new\n"))
        await it.rounds()
        assert it.published["press"] == ChangeSetReply(name), "git has it, so the gateway gets the reply"
        assert it.repository.read(f"site/{VIEW}", BRANCH) == b"new\n"
        assert (it.standings["press"].reason, it.standings["press"].message) == (
            Reason.FORGE_REFUSED,
            "forge.test says no",
        )
        it.forge.error = None
        await it.rounds()
        assert not it.forge.requests, "not before its pause is over"
        await it.clock.advance(FIRST_PAUSE * 4)
        await it.rounds()
        assert len(it.forge.open) == 1
        assert it.standings["press"].reason is None


async def test_an_error_that_is_over_is_reported_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path) as it:

        async def fails_once(draft: PullRequestDraft) -> PullRequest:
            monkeypatch.undo()
            raise Retry("forge.test is away", reason=Reason.FORGE_REFUSED)

        monkeypatch.setattr(it.forge, "create", fails_once)
        it.send(it.edit(VIEW, "new\n"))
        await it.rounds()
        assert len(it.forge.open) == 1
        assert (it.standings["press"].reason, it.standings["press"].message) == (None, "")


async def test_without_a_forge_branches_are_pushed_and_the_status_says_why(tmp_path: Path) -> None:
    async with world(tmp_path, conflicts=ConflictStrategy.GATEWAY_WINS) as it:
        it.forge_error = Stalled("nobody knows the forge")
        it.send(it.edit(VIEW, "new\n"))
        await it.rounds()
        assert it.repository.read(f"site/{VIEW}", BRANCH) == b"new\n"
        assert it.standings["press"].message == "pushed only: nobody knows the forge"
        assert it.published["press"].holds == (VIEW,)
        it.repository.commit({f"site/{VIEW}": "new\n"})
        await it.rounds()
        assert not it.published["press"].holds, "the ref has by itself what was proposed"


async def test_a_server_that_cannot_be_reached_loses_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.send(it.edit(VIEW, "new\n"))
        it.commit = it.repository.tip()
        away = it.repository.path.rename(it.repository.path.with_name("away.git"))
        it.look()
        await working()
        said = it.look()
        assert not said.answers
        assert said.standings["press"].reason is Reason.NETWORK_ERROR
        assert any(it.maps.values())
        away.rename(it.repository.path)
        await it.clock.advance(FIRST_PAUSE * 4)
        await it.rounds()
        assert it.repository.read(f"site/{VIEW}", BRANCH) == b"new\n"


async def test_a_concurrent_push_to_the_branch_loses_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.send(it.edit(VIEW, "new\n"))
        await it.rounds()
        it.repository.commit({"site/review": "better\n"}, branch=BRANCH)
        it.send(it.edit(OTHER, "[]"))
        await it.rounds()
        assert it.repository.read("site/review", BRANCH) == b"better\n"
        assert it.repository.read(f"site/{OTHER}", BRANCH) == b"[]"


@pytest.mark.parametrize("between", [False, True], ids=["at once", "after another set"])
async def test_what_a_reviewer_made_of_a_file_on_the_branch_stays_in_it(
    tmp_path: Path, between: bool
) -> None:
    async with world(tmp_path) as it:
        first = LINES.replace("one", "ONE")
        it.send(it.edit(VIEW, first))
        await it.rounds()
        it.repository.commit({f"site/{VIEW}": first.replace("three", "reviewed")}, branch=BRANCH)
        if between:
            it.send(it.edit(OTHER, "[]"))
            await it.rounds()
        it.send(it.edit(VIEW, first.replace("five", "FIVE")))
        await it.rounds()
        assert it.repository.read(f"site/{VIEW}", BRANCH) == b"ONE\ntwo\nreviewed\nfour\nFIVE\n"
        assert not it.standings["press"].conflicts
        it.send(it.edit(VIEW, first.replace("three", "gateway")))
        await it.rounds()
        assert it.repository.read(f"site/{VIEW}", BRANCH) == first.replace("three", "gateway").encode()
        assert it.standings["press"].conflicts == (VIEW,)
        assert "in conflict" in it.repository.messages(BRANCH)[0]


async def test_what_the_gateway_itself_proposed_before_is_no_conflict(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        for text in ("first\n", "second\n", "third\n"):
            it.send(it.edit(VIEW, text))
            await it.rounds()
            assert it.repository.read(f"site/{VIEW}", BRANCH) == text.encode()
            assert not it.standings["press"].conflicts


async def test_a_revert_after_a_review_is_a_conflict(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.send(it.edit(VIEW, "new\n"))
        await it.rounds()
        it.repository.commit({f"site/{VIEW}": "better\n"}, branch=BRANCH)
        it.send(it.edit(VIEW, LINES))
        await it.rounds()
        assert it.repository.read(f"site/{VIEW}", BRANCH) == LINES.encode()
        assert it.standings["press"].conflicts == (VIEW,)


async def test_a_concurrent_push_to_the_ref_costs_no_backoff(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path) as it:
        propose = ProposalBranches.propose

        async def overtaken(
            self: ProposalBranches,
            branch: str,
            commit: NewCommit,
            ground: ProposalBase,
            *,
            anew: bool,
            up: ProposedFiles | None,
        ) -> PushedProposal:
            if ground.tip == began:
                it.repository.commit({"README.md": "faster\n"})
            return await propose(self, branch, commit, ground, anew=anew, up=up)

        began = it.repository.tip()
        monkeypatch.setattr(ProposalBranches, "propose", overtaken)
        it.send(it.edit(VIEW, "new\n"))
        await it.rounds(1)
        assert it.repository.read(f"site/{VIEW}", BRANCH) == b"new\n"
        assert it.repository.read("README.md", BRANCH) == b"faster\n"


LATE = "projects/late/view.json"


def parents(repository: Repository) -> list[str]:
    return repository.git("rev-parse", f"{BRANCH}^@").decode().split()


async def test_a_file_that_came_after_the_branch_is_deleted_for_good(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.send(it.edit(VIEW, "new\n"))
        await it.rounds()
        it.repository.commit({"site/review": executable("better\n")}, branch=BRANCH)
        came = it.repository.commit({f"site/{LATE}": LINES, "site/more": "of others\n"})
        before = it.repository.tip(BRANCH)
        it.send(it.edit(LATE, None))
        await it.rounds()
        assert set(parents(it.repository)) == {before, came}
        assert it.repository.messages(BRANCH)[0].count(f"deleted: site/{LATE}") == 1
        assert it.repository.git("ls-tree", BRANCH, "site/review").startswith(b"100755 ")
        assert it.repository.read("site/more", BRANCH) == b"of others\n"
        assert not it.standings["press"].conflicts
        it.forge.merge(1)
        files = it.repository.files()
        assert f"site/{LATE}" not in files
        assert (files[f"site/{VIEW}"], files["site/review"]) == (b"new\n", b"better\n")


async def test_a_file_that_came_after_the_branch_is_changed_where_it_is(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.send(it.edit(OTHER, "[]"))
        await it.rounds()
        came = it.repository.commit({f"site/{LATE}": LINES})
        it.send(it.edit(LATE, LINES.replace("one", "ONE")))
        await it.rounds()
        assert came in parents(it.repository)
        it.repository.git("merge-tree", "--write-tree", "main", BRANCH)  # fails where anything is in conflict
        assert it.repository.read(f"site/{LATE}", BRANCH) == LINES.replace("one", "ONE").encode()
        assert it.repository.read(f"site/{OTHER}", BRANCH) == b"[]"


async def test_a_file_that_is_renamed_on_the_gateway_after_it_came_is_renamed_in_git(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.send(it.edit(OTHER, "[]"))
        await it.rounds()
        it.repository.commit({f"site/{LATE}": LINES})
        it.send(it.edit(LATE, None), it.edit(f"{LATE}.moved", LINES))
        await it.rounds()
        it.forge.merge(1)
        files = it.repository.files()
        assert f"site/{LATE}" not in files
        assert files[f"site/{LATE}.moved"] == LINES.encode()


async def test_a_deletion_of_what_was_proposed_in_conflict_is_named_and_merged(tmp_path: Path) -> None:
    more = "projects/hmi/more.json"
    async with world(tmp_path) as it:
        before = it.repository.tip()
        edit, deletion = it.edit(VIEW, LINES.replace("two", "TWO")), it.edit(VIEW, None)
        it.repository.commit({f"site/{VIEW}": LINES.replace("two", "others")})
        it.send(edit, it.edit(OTHER, "[]"), it.edit(more, LINES), base=before)  # more resembles what goes
        await it.rounds()
        it.repository.commit({"README.md": "reviewed\n"}, branch=BRANCH)
        it.repository.commit({f"site/{OTHER}": "[1]"})
        name = it.send(deletion, base=before)
        await it.rounds()
        assert it.published["press"].id == name
        assert f"deleted, in conflict: site/{VIEW}" in it.repository.messages(BRANCH)[0]
        assert it.standings["press"].conflicts == (VIEW,)
        assert f"`{VIEW}`" in it.forge.bodies[1].partition("in conflict")[2]
        it.forge.merge(1, squash=True)
        assert set(it.repository.files()) == {"README.md", f"site/{OTHER}", f"site/{more}"}


@pytest.mark.parametrize("line", ["two", "five"], ids=["the same line", "another line"])
async def test_what_was_proposed_before_is_put_together_with_the_ref_or_named(
    tmp_path: Path, line: str
) -> None:
    async with world(tmp_path) as it:
        it.send(it.edit(VIEW, LINES.replace("two", "TWO")))
        await it.rounds()
        changed = LINES.replace(line, "others")
        it.repository.commit({f"site/{LATE}": LINES, f"site/{VIEW}": changed})
        it.send(it.edit(LATE, None))
        await it.rounds()
        together = changed if line == "five" else LINES
        assert it.repository.read(f"site/{VIEW}", BRANCH) == together.replace("two", "TWO").encode()
        clash = (f"site/{VIEW}",) if line == "two" else ()
        assert it.standings["press"].conflicts == clash
        assert (f"kept, in conflict: site/{VIEW}" in it.repository.messages(BRANCH)[0]) is bool(clash)
        assert (f"`site/{VIEW}`" in it.forge.bodies[1].partition("in conflict")[2]) is bool(clash)


@pytest.mark.parametrize("where", [BRANCH, "main"], ids=["by a reviewer", "on the ref"])
async def test_a_mode_stays_when_a_branch_is_brought_up(tmp_path: Path, where: str) -> None:
    async with world(tmp_path) as it:
        mine = LINES.replace("two", "TWO")
        it.send(it.edit(VIEW, mine))
        await it.rounds()
        others = LINES.replace("five", "others")
        base = {BRANCH: mine, "main": others}
        it.repository.commit({f"site/{LATE}": LINES, f"site/{VIEW}": others})
        it.repository.commit({f"site/{VIEW}": executable(base[where])}, branch=where)
        it.repository.commit({f"site/{OTHER}": executable("{}")}, branch=where)  # nothing but its mode
        it.send(it.edit(LATE, None))
        await it.rounds()
        assert it.repository.read(f"site/{VIEW}", BRANCH) == others.replace("two", "TWO").encode()
        for path in (VIEW, OTHER):
            assert it.repository.git("ls-tree", BRANCH, f"site/{path}").startswith(b"100755 ")
        assert not it.standings["press"].conflicts


PLAIN, PROGRAM = "100644", "100755"
SCRIPT = "projects/hmi/run.sh"


def mode(repository: Repository, path: str) -> str:
    return repository.git("ls-tree", BRANCH, f"site/{path}").decode().split(" ")[0]


@pytest.mark.parametrize(
    ("base", "mine", "git", "kept"),
    [
        (PLAIN, PROGRAM, PLAIN, PROGRAM),
        (PROGRAM, PLAIN, PROGRAM, PLAIN),
        (PROGRAM, PROGRAM, PROGRAM, PROGRAM),
        (PLAIN, PLAIN, PROGRAM, PROGRAM),  # changed in git alone
        (PROGRAM, PROGRAM, PLAIN, PLAIN),
        ("", PLAIN, PROGRAM, PROGRAM),  # an agent that does not say what it was
    ],
)
async def test_whether_a_file_may_be_executed_travels_with_its_edit(
    tmp_path: Path, base: str, mine: str, git: str, kept: str
) -> None:
    async with world(tmp_path) as it:
        it.repository.commit({f"site/{SCRIPT}": FileEntry(LINES, git)})
        edit = replace(it.edit(SCRIPT, LINES.replace("one", "ONE")), mode=mine, base_mode=base)
        it.send(edit)
        await it.rounds()
        assert mode(it.repository, SCRIPT) == kept
        assert it.repository.read(f"site/{SCRIPT}", BRANCH) == edit.content


async def test_a_new_program_is_one_and_can_be_made_a_plain_file_again(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        for mine in (PROGRAM, PLAIN, PROGRAM):
            it.send(replace(it.edit(SCRIPT, "echo\n"), mode=mine))
            await it.rounds()
            assert mode(it.repository, SCRIPT) == mine
        it.forge.merge(1)
        it.send(replace(it.edit(SCRIPT, "echo\n"), mode=PROGRAM, base_mode=PROGRAM))
        await it.rounds()
        assert len(it.forge.requests) == 1, "it came back as nothing to do"


async def test_a_mode_change_alone_is_proposed_and_can_be_reverted(tmp_path: Path) -> None:
    async with world(tmp_path, conflicts=ConflictStrategy.MANUAL) as it:
        it.send(replace(it.edit(VIEW, LINES), mode=PROGRAM, base_mode=PLAIN))
        await it.rounds()
        assert mode(it.repository, VIEW) == PROGRAM
        assert f"made executable: site/{VIEW}" in it.repository.messages(BRANCH)[0]
        assert it.published["press"].holds == (VIEW,)
        await it.rounds()
        assert it.published["press"].holds == (VIEW,), (
            "what only has another mode is not in the ref by itself"
        )
        it.send(replace(it.edit(VIEW, LINES), mode=PLAIN, base_mode=PLAIN))
        await it.rounds()
        assert mode(it.repository, VIEW) == PLAIN


async def test_mode_changes_are_reverted_also_where_others_write_to_the_branch(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.send(replace(it.edit(VIEW, LINES), mode=PROGRAM, base_mode=PLAIN))
        await it.rounds()
        it.repository.commit({"site/review": "better\n"}, branch=BRANCH)
        it.send(replace(it.edit(VIEW, LINES), mode=PLAIN, base_mode=PLAIN))
        await it.rounds()
        assert mode(it.repository, VIEW) == PLAIN
        assert not it.standings["press"].conflicts


async def test_a_revert_leaves_the_modes_that_git_has_since(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        before = it.repository.tip()
        it.send(it.edit(VIEW, "new\n"))
        await it.rounds()
        it.repository.commit({f"site/{VIEW}": executable(LINES)})
        it.send(replace(it.edit(VIEW, LINES), mode=PLAIN, base_mode=PLAIN), base=before)
        await it.rounds()
        assert it.repository.read(f"site/{VIEW}", BRANCH) == LINES.encode()
        assert mode(it.repository, VIEW) == PROGRAM


@pytest.mark.parametrize("where", [BRANCH, "main"], ids=["by a reviewer", "on the ref"])
async def test_a_mode_change_alone_removes_nothing_that_others_wrote(tmp_path: Path, where: str) -> None:
    async with world(tmp_path) as it:
        before = it.repository.tip()
        edit = replace(it.edit(VIEW, LINES), mode=PROGRAM, base_mode=PLAIN)
        it.send(it.edit(OTHER, "[]"))
        await it.rounds()
        theirs = LINES.replace("five", "theirs")
        it.repository.commit({f"site/{VIEW}": theirs}, branch=where)
        it.send(edit, base=before)
        await it.rounds()
        assert it.repository.read(f"site/{VIEW}", BRANCH) == theirs.encode()
        assert mode(it.repository, VIEW) == PROGRAM
        assert not it.standings["press"].conflicts


async def test_lines_are_put_together_beside_the_loop_that_renews_the_lease() -> None:
    texts = {blob_of(text): text for text in (b"base", b"ours", b"theirs")}
    base, ours, theirs = map(FileVersion, texts)
    threads: list[int] = []

    async def read(blobs: Collection[BlobId]) -> dict[BlobId, bytes]:
        return {blob: texts[blob] for blob in blobs}

    def merge(*sides: bytes) -> bytes:
        threads.append(threading.get_ident())
        return b", ".join(sides)

    found = await rebase_changes([TreeChange("a", base, theirs)], {"a": ours}, read, merge)
    assert found.up == {"a": MergedFile(b"base, ours, theirs")}
    assert threads
    assert threading.get_ident() not in threads


async def test_what_was_deleted_again_leaves_a_branch_that_is_brought_up(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.send(it.edit("projects/hmi/more.json", "{}"))
        await it.rounds()
        it.repository.commit({f"site/{LATE}": LINES})
        before = it.repository.tip()
        first = LINES.replace("one", "ONE")
        late = it.edit(LATE, first)
        it.repository.commit({f"site/{LATE}": first.replace("five", "FIVE")})  # has it already, and more
        for _ in range(2):
            it.send(late, it.edit("projects/hmi/more.json", None), base=before)
            await it.rounds()
            assert it.repository.files(BRANCH) == it.repository.files()
            assert it.published["press"].result is ChangeSetResult.RECORDED
        assert it.repository.tip() in parents(it.repository)


async def test_a_deletion_that_the_branch_has_already_costs_no_commit(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.send(it.edit(VIEW, None))
        await it.rounds()
        stands = it.repository.tip(BRANCH)
        it.send(it.edit(VIEW, None), base=it.repository.tip())
        await it.rounds()
        assert it.repository.tip(BRANCH) == stands
        assert it.published["press"].result is ChangeSetResult.RECORDED


async def test_a_set_that_is_repeated_after_the_branch_was_brought_up_makes_no_commit(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.send(it.edit(OTHER, "[]"))
        await it.rounds()
        it.repository.commit({f"site/{LATE}": LINES})
        for _ in range(2):
            it.send(it.edit(LATE, None))
            await it.rounds()
        assert [f"site/{LATE}" in said for said in it.repository.messages(BRANCH)].count(True) == 1


@pytest.mark.parametrize("how", ["a link", "a folder"])
async def test_a_branch_that_cannot_be_brought_up_stays_and_the_deletion_is_refused_by_name(
    tmp_path: Path, how: str
) -> None:
    async with world(tmp_path) as it:
        it.send(it.edit(OTHER, "[]"))
        await it.rounds()
        if how == "a link":
            it.repository.commit({"site/link": FileEntry("/etc", "120000")}, branch=BRANCH)
            it.repository.commit({f"site/{LATE}": LINES})
        else:
            it.repository.commit({"site/place": "a file\n"}, branch=BRANCH)
            it.repository.commit({f"site/{LATE}": LINES, "site/place/below": "so it is a folder\n"})
        stands = it.repository.tip(BRANCH)
        it.send(it.edit(LATE, None), it.edit(VIEW, "new\n"))
        await it.rounds()
        assert it.published["press"].refused == (LATE,)
        assert "cannot be rebased" in it.standings["press"].message
        assert parents(it.repository) == [stands]
        assert it.repository.read(f"site/{VIEW}", BRANCH) == b"new\n"


async def test_a_revert_on_the_gateway_is_a_revert_on_its_branch(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.send(it.edit(VIEW, "new\n"), it.edit(OTHER, "[]"))
        await it.rounds()
        it.send(it.edit(VIEW, LINES))
        await it.rounds()
        assert it.repository.read(f"site/{VIEW}", BRANCH) == LINES.encode()


async def test_straight_to_the_followed_branch_where_that_is_configured(tmp_path: Path) -> None:
    for strategy, wins in (
        (ConflictStrategy.GIT_WINS, b"git\n"),
        (ConflictStrategy.GATEWAY_WINS, b"gateway\n"),
    ):
        async with world(
            tmp_path / strategy, target_branch="main", create_pr=False, conflicts=strategy
        ) as it:
            it.send(it.edit(OTHER, "[]"))
            await it.rounds()
            assert it.repository.read(f"site/{OTHER}") == b"[]"
            assert it.published["press"].holds == ()
            before = it.repository.tip()
            edit = it.edit(VIEW, "gateway\n")
            it.repository.commit({f"site/{VIEW}": "git\n"})
            it.send(edit, base=before)
            await it.rounds()
            assert it.repository.read(f"site/{VIEW}") == wins
            assert (VIEW in it.published["press"].refused) is (wins == b"git\n")
            assert not it.forge.requests


async def test_straight_to_the_followed_branch_nothing_needs_room_to_be_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.controller.bidirectional.holds.MAX_BYTES", 10)
    manual = ConflictStrategy.MANUAL
    async with world(tmp_path, target_branch="main", create_pr=False, conflicts=manual) as it:
        name = it.send(it.edit(OTHER, "[]"))
        await it.rounds()
        assert it.published["press"] == ChangeSetReply(name)
        assert it.repository.read(f"site/{OTHER}") == b"[]"
