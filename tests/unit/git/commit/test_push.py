"""Responses of servers to a push, and their consequences. The words are those of real servers."""

from __future__ import annotations

import pytest

from stoker.domain.errors import Retry, Stalled, StokerError
from stoker.domain.reasons import Reason
from stoker.domain.refs import RepoUrl
from stoker.git.commit.push import (
    ObjectFormatMismatch,
    PushBehind,
    PushDeclined,
    PushFailed,
    PushTooLarge,
    is_final,
    push_error,
    translate_write_errors,
)
from stoker.git.errors import GitFailed, SourceAuthFailed, SourceUnreachable

URL = RepoUrl("https://git.example.test/plant.git")


def answer(who: str, why: str, *theirs: str) -> str:
    remote = "".join(f"remote: {line}        \n" for line in theirs)
    return (
        f"{remote}To {URL}\n ! [{who}] 1234567 -> main ({why})\nerror: failed to push some refs to '{URL}'\n"
    )


def rejected(why: str, *theirs: str) -> str:
    return answer("remote rejected", why, *theirs)


COULD_NOT_READ = (
    "fatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\n"
    "and the repository exists.\n"
)
HUNG_UP = (
    "send-pack: unexpected disconnect while reading sideband packet\n"
    "fatal: the remote end hung up unexpectedly\n"
)
NO_ACCESS = f"fatal: unable to access '{URL}/': "
RETURNED = f"{NO_ACCESS}The requested URL returned error: "
SAID: dict[str, tuple[str, type[StokerError]]] = {
    "the lease does not hold": (answer("rejected", "stale info"), PushBehind),
    "behind": (answer("rejected", "fetch first"), PushBehind),
    "two pushes in one moment": (
        rejected(
            "failed to update ref",
            "error: cannot lock ref 'refs/heads/main': is at 1234567 but expected 7654321",
        ),
        PushBehind,
    ),
    "the same to a newer git": (rejected("incorrect old value provided"), PushBehind),
    "a branch that was made meanwhile": (rejected("reference already exists"), PushBehind),
    "Gitea": (
        rejected("pre-receive hook declined", "Gitea: Not allowed to push to protected branch main"),
        PushDeclined,
    ),
    "GitLab": (
        rejected(
            "pre-receive hook declined",
            "GitLab: You are not allowed to push code to protected branches on this project.",
        ),
        PushDeclined,
    ),
    "GitHub": (
        rejected(
            "protected branch hook declined",
            "error: GH006: Protected branch update failed for refs/heads/main.",
            "error: At least 1 approving review is required by reviewers with write access.",
        ),
        PushDeclined,
    ),
    "a rule of GitHub": (
        rejected(
            "push declined due to repository rule violations",
            "error: GH013: Repository rule violations found for refs/heads/main.",
        ),
        PushDeclined,
    ),
    "a hook without words": (rejected("hook declined"), PushDeclined),
    "a checked out branch": (rejected("branch is currently checked out"), PushDeclined),
    "a hidden branch": (rejected("deny updating a hidden ref"), PushDeclined),
    "a pack above the limit": (
        rejected("unpacker error", "fatal: pack exceeds maximum allowed size"),
        PushTooLarge,
    ),
    "a file above GitHub's limit": (
        rejected(
            "pre-receive hook declined",
            "error: GH001: Large files detected. You may want to try Git Large File Storage.",
            "error: File a is 120.00 MB; this exceeds GitHub's file size limit of 100.00 MB",
        ),
        PushTooLarge,
    ),
    "a proxy with a limit": (
        f"error: RPC failed; HTTP 413 curl 22 The requested URL returned error: 413\n{HUNG_UP}",
        PushTooLarge,
    ),
    "a full disk there": (
        rejected(
            "unpacker error",
            "fatal: write error: No space left on device",
        ),
        PushFailed,
    ),
    "a full disk there, before anything": (
        rejected("unable to migrate objects to permanent storage"),
        PushFailed,
    ),
    "a server that dies while it answers": (
        answer("remote failure", "remote failed to report status"),
        PushFailed,
    ),
    "no token": (
        "fatal: could not read Username for 'https://git.example.test': terminal prompts disabled\n",
        SourceAuthFailed,
    ),
    "a wrong token": (
        "fatal: Authentication failed for 'https://git.example.test/plant.git/'\n",
        SourceAuthFailed,
    ),
    "a token that may only read": (
        f"remote: Write access to repository not granted.\n{RETURNED}403\n",
        SourceAuthFailed,
    ),
    "GitHub's deploy key that may only read": (
        f"ERROR: The key you are authenticating with has been marked as read only.\n{COULD_NOT_READ}",
        SourceAuthFailed,
    ),
    "GitLab's": (
        f"remote: ERROR: This deploy key does not have write access to this project.\n{COULD_NOT_READ}",
        SourceAuthFailed,
    ),
    "Gitea's": (
        f"Gitea: User: 2:bot with Key: 3:deploy is not authorized to write to plant/plant.\n{COULD_NOT_READ}",
        SourceAuthFailed,
    ),
    "no answer": (
        f"{NO_ACCESS}Failed to connect to git.example.test port 443 after 0 ms: Couldn't connect to server\n",
        SourceUnreachable,
    ),
    "an end in the middle": (
        HUNG_UP,
        SourceUnreachable,
    ),
    "no such repository": (
        "fatal: repository 'https://git.example.test/plant.git/' not found\n",
        SourceUnreachable,
    ),
    "no such repository over ssh": (
        f"fatal: '/srv/plant.git' does not appear to be a git repository\n{COULD_NOT_READ}",
        SourceUnreachable,
    ),
    "a server in trouble": (
        f"{RETURNED}503\n",
        SourceUnreachable,
    ),
    "a full disk here": ("fatal: write error: No space left on device\n", GitFailed),
    "killed": ("", GitFailed),
    "an empty repository of the other kind": (
        "fatal: the receiving end does not support this repository's hash algorithm\n",
        ObjectFormatMismatch,
    ),
}


@pytest.mark.parametrize("case", SAID)
def test_each_answer_has_its_meaning(case: str) -> None:
    output, kind = SAID[case]
    error = push_error(output, URL)
    assert type(error) is kind
    assert len(error.message) < 600
    assert error.message.isprintable()


@pytest.mark.parametrize("case", SAID)
def test_only_answers_that_are_certain_need_no_question_after_them(case: str) -> None:
    output, kind = SAID[case]
    unknown = (PushBehind, PushFailed, SourceUnreachable, GitFailed)
    assert is_final(push_error(output, URL)) == (kind not in unknown)


def test_a_person_must_act_where_trying_again_is_of_no_use() -> None:
    for message, kind in SAID.values():
        stalls = kind in (PushDeclined, PushTooLarge, SourceAuthFailed)
        assert isinstance(push_error(message, URL), Stalled if stalls else Retry)


def test_the_words_of_a_hook_reach_the_person() -> None:
    output, _ = SAID["Gitea"]
    assert push_error(output, URL).message == (
        "repository https://git.example.test/plant.git declines what was pushed: "
        "Gitea: Not allowed to push to protected branch main (pre-receive hook declined)"
    )


def test_a_server_cannot_pretend_that_a_push_was_too_late() -> None:
    message = rejected("pre-receive hook declined", " ! [rejected] 1234567 -> main (stale info)")
    assert type(push_error(message, URL)) is PushDeclined


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (SourceAuthFailed("x"), Reason.AUTH_FAILED),
        (SourceUnreachable("x"), Reason.NETWORK_ERROR),
        (PushBehind("x"), Reason.NON_FAST_FORWARD),
        (PushDeclined("x"), Reason.PUSH_DECLINED),
        (GitFailed("x"), Reason.GIT_FAILED),
    ],
)
def test_what_fails_has_the_reasons_of_the_paper(error: StokerError, reason: Reason) -> None:
    with pytest.raises(type(error)), translate_write_errors():
        raise error
    assert error.reason == reason
