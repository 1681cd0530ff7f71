"""Sources that turn hostile: unsigned, rewritten, emptied, or opened with another user's credential.

Through the whole command: what a policy refuses changes no file, and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stoker.cli.exit_codes import ExitCode
from stoker.domain.reasons import Reason
from stoker_testkit.command_fork_server import CommandResult, Commands
from stoker_testkit.repositories.bare_repository import Repository, submodule
from stoker_testkit.repositories.commit_signers import Signer, ssh_signer
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.malicious_repository import Attack, fingerprint
from stoker_testkit.secret_leaks.tracked_credentials import planted


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    with Commands.ready() as commands:
        yield commands


class Site(Attack):
    """Attacked through the command."""

    def __init__(self, folder: Path, commands: Commands) -> None:
        super().__init__(folder)
        self.folder = folder
        self._commands = commands
        self.repo = str(self.url)

    def run(self, *options: str, ref: str = "main") -> CommandResult:
        where = [f"--data-dir={self.data}", f"--cache-dir={self.cache}", "--output=json"]
        with self.guarded():
            ended = self._commands.run(
                "sync", f"--repo={self.repo}", f"--ref={ref}", "--map=s:projects/P", *where, *options
            )
        assert "Traceback" not in ended.err
        return ended

    def refuses(
        self, reason: Reason, *options: str, ref: str = "main", code: ExitCode = ExitCode.STALLED
    ) -> str:
        """The output; the files of the destination are unchanged."""
        before = fingerprint(self.data / "projects")
        ended = self.run(*options, ref=ref)
        assert (ended.code, ended.document.get("reason")) == (code, reason), ended
        assert fingerprint(self.data / "projects") == before
        return str(ended.document["message"])


@pytest.fixture
def site(tmp_path: Path, commands: Commands) -> Site:
    return Site(tmp_path, commands)


# Signatures.


@pytest.fixture
def alice(site: Site) -> Signer:
    signer = ssh_signer(site.folder, "alice")
    (site.folder / "signers").write_bytes(b"alice@example.test " + signer.public + b"\n")
    return signer


def signed(site: Site, mode: str = "commit") -> tuple[str, str]:
    return f"--verify-signatures={mode}", f"--allowed-signers-file={site.folder / 'signers'}"


def unsigned(site: Site, _: Signer) -> str:
    return site.repository.commit({"s/f": "evil"})


def by_another_key(site: Site, _: Signer) -> str:
    return ssh_signer(site.folder, "mallory").commit(site.repository, {"s/f": "evil"})


def unsigned_on_top(site: Site, alice: Signer) -> str:
    alice.commit(site.repository, {"s/f": "2"})
    return site.repository.commit({"s/f": "evil"})


def changed_afterwards(site: Site, alice: Signer) -> str:
    good = alice.commit(site.repository, {"s/f": "2"})
    other = site.repository.commit({"s/f": "evil"})
    tree = site.read(other).split(b"\n")[0]
    forged = b"\n".join([tree, *site.read(good).split(b"\n")[1:]])
    commit = site.write("commit", forged)
    site.repository.set_branch("main", commit)
    return commit


def text_in_the_message(site: Site, alice: Signer) -> str:
    good = alice.commit(site.repository, {"s/f": "2"})
    signature = site.read(good).partition(b"gpgsig ")[2].partition(b"\n\n")[0].decode()
    return site.repository.commit({"s/f": "evil"}, message=f"gpgsig {signature}\n\nGood signature by alice")


FORGERIES: dict[str, tuple[Callable[[Site, Signer], str], Reason]] = {
    "unsigned": (unsigned, Reason.SIGNATURE_MISSING),
    "by another key": (by_another_key, Reason.SIGNATURE_INVALID),
    "unsigned on top": (unsigned_on_top, Reason.SIGNATURE_MISSING),
    "changed afterwards": (changed_afterwards, Reason.SIGNATURE_INVALID),
    "text in the message": (text_in_the_message, Reason.SIGNATURE_MISSING),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_where_signatures_are_required_nothing_of_a_forgery_is_applied(
    site: Site, alice: Signer, what: str
) -> None:
    alice.commit(site.repository, {"s/f": "1"})
    assert site.run(*signed(site)).code == ExitCode.DONE
    forge, reason = FORGERIES[what]
    commit = forge(site, alice)
    message = site.refuses(reason, *signed(site))
    assert commit in message
    assert site.delivered() == {"f": b"1"}
    site.refuses(reason, *signed(site), "--trust-ledger")
    site.refuses(reason, *signed(site), "--dry-run")


def test_a_signed_tag_is_required_where_tags_vouch(site: Site, alice: Signer) -> None:
    commit = site.repository.commit({"s/f": "1"})
    site.repository.tag("v1", commit)
    site.refuses(Reason.SIGNATURE_MISSING, *signed(site, "tag"), ref="v1")
    site.repository.tag("v1", commit, message="annotated")
    site.refuses(Reason.SIGNATURE_MISSING, *signed(site, "tag"), ref="v1")
    alice.tag(site.repository, "v1", commit)
    assert site.run(*signed(site, "tag"), ref="v1").code == ExitCode.DONE
    evil = site.repository.commit({"s/f": "evil"})
    site.repository.tag("v1", evil, message="moved")
    site.refuses(Reason.SIGNATURE_MISSING, *signed(site, "tag"), ref="v1")
    assert site.delivered() == {"f": b"1"}


# History.


def forced(repository: Repository) -> None:
    first = repository.tip("main~1")
    repository.commit({"s/f": "evil"}, onto=first)


def unrelated(repository: Repository) -> None:
    repository.delete_branch("main")
    repository.commit({"s/f": "evil"})


def moved_back(repository: Repository) -> None:
    repository.set_branch("main", repository.tip("main~1"))


@pytest.mark.parametrize("rewrite", [forced, unrelated, moved_back])
def test_a_rewritten_branch_stalls_unless_that_is_allowed(
    site: Site, rewrite: Callable[[Repository], None]
) -> None:
    site.repository.commit({"s/f": "0"})
    site.repository.commit({"s/f": "1", "s/g": "1"})
    assert site.run("--no-rewrite").code == ExitCode.DONE
    rewrite(site.repository)
    for more in ((), ("--trust-ledger",), ("--dry-run",)):
        message = site.refuses(Reason.HISTORY_REWRITTEN, "--no-rewrite", *more)
        assert site.repository.tip() in message
    assert site.delivered() == {"f": b"1", "g": b"1"}
    assert site.run().code == ExitCode.DONE
    assert site.delivered() == {
        path.removeprefix("s/"): content for path, content in site.repository.files().items()
    }


@pytest.mark.parametrize("message", [None, "annotated"], ids=["lightweight", "annotated"])
def test_a_moved_tag_stalls_where_rewriting_is_not_allowed(site: Site, message: str | None) -> None:
    base = site.repository.commit({"s/f": "0"})
    site.repository.tag("v1", site.repository.commit({"s/f": "1"}), message=message)
    assert site.run("--no-rewrite", ref="v1").code == ExitCode.DONE
    site.repository.tag("v1", site.repository.commit({"s/f": "evil"}, onto=base), message=message)
    site.refuses(Reason.HISTORY_REWRITTEN, "--no-rewrite", ref="v1")


def test_a_branch_that_is_gone_changes_nothing(site: Site) -> None:
    site.repository.commit({"s/f": "1"})
    assert site.run().code == ExitCode.DONE
    site.repository.set_branch("other", site.repository.tip())
    site.repository.delete_branch("main")
    assert "main" in site.refuses(Reason.REF_NOT_FOUND, code=ExitCode.WRONG_INPUT)


# Emptiness.


EMPTY: dict[str, Callable[[Repository], object]] = {
    "source removed": lambda repository: repository.commit({"t/f": "1"}, replace=True),
    "empty commit": lambda repository: repository.commit({}, replace=True),
    "a file in its place": lambda repository: repository.commit({"s": "1", "t/f": "1"}, replace=True),
    "a submodule in its place": lambda repository: repository.commit(
        {"s": submodule("1" * 40), "t/f": "1"}, replace=True
    ),
    "nothing but submodules": lambda repository: repository.commit(
        {"s/m": submodule("1" * 40), "t/f": "1"}, replace=True
    ),
    "other case": lambda repository: repository.commit({"S/f": "1"}, replace=True),
}


@pytest.mark.parametrize("what", EMPTY)
def test_an_emptied_source_deletes_nothing(site: Site, what: str) -> None:
    site.repository.commit({"s/f": "1", "s/g/h": "1"})
    assert site.run().code == ExitCode.DONE
    EMPTY[what](site.repository)
    site.refuses(Reason.SOURCE_EMPTY)
    site.refuses(Reason.SOURCE_EMPTY, "--trust-ledger")
    assert site.delivered() == {"f": b"1", "g/h": b"1"}


def test_excludes_that_match_everything_delete_nothing(site: Site) -> None:
    site.repository.commit({"s/f": "1", "s/g/h": "1"})
    assert site.run().code == ExitCode.DONE
    assert site.run("--exclude=**").code in (ExitCode.DONE, ExitCode.STALLED)
    assert site.delivered() == {"f": b"1", "g/h": b"1"}


# Credentials.


def test_what_one_credential_opened_is_never_served_to_another(
    site: Site, repositories: Path, git_http: GitHttpServer
) -> None:
    repository = Repository.create(repositories / "plant.git")
    repository.commit({"s/f": "for alice alone"})
    git_http.users |= {"alice": planted("password-of-alice")}
    site.repo = git_http.url("plant.git")
    for name in ("alice", "mallory"):
        (site.folder / name).write_text(planted(f"password-of-{name}"))

    def login(name: str) -> tuple[str, str]:
        return f"--username={name}", f"--token-file={site.folder / name}"

    assert site.run(*login("alice")).code == ExitCode.DONE
    mirrors = [path for path in (site.cache / "mirrors").iterdir() if path.is_dir()]
    other = site.folder / "other"
    other.mkdir()
    for attempt in (
        login("mallory"),
        (),
        (f"--username={'alice'}", f"--token-file={site.folder / 'mallory'}"),
    ):
        ended = site.run(*attempt, f"--data-dir={other}")
        assert (ended.code, ended.document["reason"]) == (ExitCode.UNREACHABLE, Reason.SOURCE_AUTH_FAILED)
        assert not [
            path for path in other.rglob("*") if path.is_file() and path.name not in ("lock", "writer")
        ]
    git_http.users["mallory"] = planted("password-of-mallory")
    repository.commit({"s/f": "for both"})
    assert site.run(*login("mallory")).code == ExitCode.DONE
    after = [path for path in (site.cache / "mirrors").iterdir() if path.is_dir()]
    assert len(after) == 2 > len(mirrors)
    assert {path.stat().st_mode & 0o7777 for path in after} == {0o700}
    assert not any(name in path.name for path in after for name in ("alice", "mallory", "plant"))
