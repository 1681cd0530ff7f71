"""A commit or tag counts as signed when, and by whom, its own bytes say so; with real keys and programs."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.domain.errors import Misconfigured, Retry, Stalled
from stoker.domain.intent.source import SignatureMode
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.git.auth.credentials import RepoAccess
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import Remote
from stoker.git.remote.tags import TagObject, fetch_tag_object, tag_name
from stoker.git.signature import programs
from stoker.git.signature.verify import (
    MAX_KEYS_BYTES,
    TrustedKeys,
    VerifiedSignature,
    check_signature,
    verify_signature,
)
from stoker_testkit.repositories.bare_repository import WHEN, Repository
from stoker_testkit.repositories.commit_signers import GpgHome, Signer, certified_signer, ssh_signer
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.ssh_keys import KeyKind
from stoker_testkit.secret_leaks.process_command_lines import running
from stoker_testkit.wait_until import eventually_async

YEAR = 365 * 86400


@pytest.fixture(scope="module")
def gpg() -> Iterator[GpgHome]:
    with GpgHome.make() as home:
        yield home


async def nothing_needed() -> RepoAccess:
    return RepoAccess()


class SignatureSite:
    """A repository whose objects are looked at in place, and a runner to look with."""

    def __init__(self, folder: Path, object_format: str = "sha1") -> None:
        self.folder = folder
        self.repository = Repository.create(folder / "r.git", object_format=object_format)
        self.runner = GitRunner(folder / "cache")

    async def commit(self, commit: CommitId, keys: TrustedKeys) -> VerifiedSignature:
        return await verify_signature(
            self.runner, self.repository.path, mode=SignatureMode.COMMIT, commit=commit, tag=None, keys=keys
        )

    async def tag(self, name: str, id_: str, commit: CommitId, keys: TrustedKeys) -> VerifiedSignature:
        tag = TagObject(name, id_)
        place = self.repository.path
        return await verify_signature(
            self.runner, place, mode=SignatureMode.TAG, commit=commit, tag=tag, keys=keys
        )

    def remote(self, url: str = "") -> Remote:
        return Remote(self.runner, RepoUrl(url or self.repository.path.as_uri()), nothing_needed)

    def left_over(self) -> list[Path]:
        """Folders for one question that are still there."""
        return list(self.folder.rglob("call-*"))


@pytest.fixture
def site(tmp_path: Path) -> SignatureSite:
    return SignatureSite(tmp_path)


def allow(signer: Signer, principal: str = "alice@example.test", options: str = "") -> TrustedKeys:
    return TrustedKeys(allowed_signers=f"{principal} {options} {signer.public.decode()}\n".encode())


def shown_by_ssh(key: Path) -> str:
    return subprocess.run(["ssh-keygen", "-l", "-f", key], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("kind", list(KeyKind))
@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
async def test_a_commit_signed_with_an_allowed_ssh_key_is_accepted(
    tmp_path: Path, kind: KeyKind, object_format: str
) -> None:
    site = SignatureSite(tmp_path, object_format)
    alice = ssh_signer(tmp_path, "alice", kind)
    signed = await site.commit(alice.commit(site.repository, {"a": "1"}), allow(alice))
    assert (signed.by, signed.kind) == ("alice@example.test", "ssh")
    assert signed.fingerprint in shown_by_ssh(tmp_path / "alice.pub")
    assert site.left_over() == []


async def test_a_certificate_of_an_allowed_authority_is_accepted(site: SignatureSite, tmp_path: Path) -> None:
    alice = certified_signer(tmp_path, "alice", principals="alice@example.test")
    commit = alice.commit(site.repository, {"a": "1"})
    signed = await site.commit(commit, allow(alice, "*@example.test", "cert-authority"))
    assert signed.by == "alice@example.test"
    assert signed.fingerprint in shown_by_ssh(tmp_path / "alice.pub")


async def test_a_certificate_counts_for_the_time_that_it_was_valid(
    site: SignatureSite, tmp_path: Path
) -> None:
    alice = certified_signer(tmp_path, "alice", principals="a@example.test", valid="20260101:20260201")
    keys = allow(alice, "a@example.test", "cert-authority")
    assert await site.commit(alice.commit(site.repository, {"a": "1"}, when=WHEN + 86400), keys)
    late = alice.commit(site.repository, {"a": "2"}, when=WHEN + 60 * 86400)
    with pytest.raises(Stalled, match=late) as refused:
        await site.commit(late, keys)
    assert refused.value.reason is Reason.SIGNATURE_INVALID


async def test_a_key_counts_between_valid_after_and_valid_before(site: SignatureSite, tmp_path: Path) -> None:
    alice = ssh_signer(tmp_path, "alice")
    keys = allow(alice, options='valid-after="20260101",valid-before="20270101"')
    assert await site.commit(alice.commit(site.repository, {"a": "1"}, when=WHEN), keys)
    for when in (WHEN - 1, WHEN + YEAR + 1):
        commit = alice.commit(site.repository, {"a": str(when)}, when=when)
        with pytest.raises(Stalled, match="do not name for the day"):
            await site.commit(commit, keys)


async def test_a_key_counts_for_the_namespace_of_git_only(site: SignatureSite, tmp_path: Path) -> None:
    alice = ssh_signer(tmp_path, "alice")
    commit = alice.commit(site.repository, {"a": "1"})
    assert await site.commit(commit, allow(alice, options='namespaces="git,file"'))
    with pytest.raises(Stalled, match="not meant for git"):
        await site.commit(commit, allow(alice, options='namespaces="file"'))


async def test_the_right_one_of_several_names_is_found(site: SignatureSite, tmp_path: Path) -> None:
    alice, bob = ssh_signer(tmp_path, "alice"), ssh_signer(tmp_path, "bob")
    lines = b"# people\n\nbob@example.test %b\nann@example.test,alice@example.test %b\n"
    keys = TrustedKeys(allowed_signers=lines % (bob.public, alice.public))
    signed = await site.commit(alice.commit(site.repository, {"a": "1"}), keys)
    assert signed.by == "ann@example.test"
    assert (await site.commit(bob.commit(site.repository, {"a": "2"}), keys)).by == "bob@example.test"


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
async def test_a_commit_signed_with_a_given_gpg_key_is_accepted(
    tmp_path: Path, gpg: GpgHome, object_format: str
) -> None:
    site = SignatureSite(tmp_path, object_format)
    name = f"alice-{object_format}"
    alice, bob = gpg.signer(name), gpg.signer(f"bob-{object_format}")
    keys = TrustedKeys(gpg_keys=bob.public + alice.public)
    signed = await site.commit(alice.commit(site.repository, {"a": "1"}), keys)
    assert signed == VerifiedSignature(f"{name} <{name}@example.test>", "gpg", gpg.fingerprint(name))
    assert site.left_over() == []


async def test_both_kinds_of_keys_can_be_given_at_once(
    site: SignatureSite, tmp_path: Path, gpg: GpgHome
) -> None:
    alice, bob = ssh_signer(tmp_path, "alice"), gpg.signer("bob-both")
    keys = TrustedKeys(allow(alice).allowed_signers, bob.public)
    assert (await site.commit(alice.commit(site.repository, {"a": "1"}), keys)).kind == "ssh"
    assert (await site.commit(bob.commit(site.repository, {"a": "2"}), keys)).kind == "gpg"


async def test_the_signature_of_a_tag_that_was_merged_is_not_the_commits_own(
    site: SignatureSite, tmp_path: Path
) -> None:
    alice, bob = ssh_signer(tmp_path, "alice"), ssh_signer(tmp_path, "bob")
    first = alice.commit(site.repository, {"a": "1"})
    id_ = bob.tag(site.repository, "v1", first)
    embedded = site.repository.git("cat-file", "tag", id_).decode().rstrip("\n").replace("\n", "\n ")
    raw = site.repository.git("cat-file", "commit", first).decode()
    head, rest = raw.split("gpgsig ", 1)
    unsigned = (
        head + "mergetag " + embedded + "\n" + rest.split("\n\n", 1)[0].split("\n", 1)[0] * 0 + "\nMerge\n"
    )
    arguments = ("hash-object", "-t", "commit", "-w", "--literally", "--stdin")
    commit = CommitId(site.repository.git(*arguments, stdin=unsigned.encode()).decode().strip())
    with pytest.raises(Stalled, match="is not signed") as refused:
        await site.commit(commit, allow(bob))
    assert refused.value.reason is Reason.SIGNATURE_MISSING


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
@pytest.mark.parametrize("kind", ["ssh", "gpg"])
async def test_a_signed_tag_vouches_for_an_unsigned_commit(
    tmp_path: Path, gpg: GpgHome, kind: str, object_format: str
) -> None:
    site = SignatureSite(tmp_path, object_format)
    alice = ssh_signer(tmp_path, "alice") if kind == "ssh" else gpg.signer(f"tagger-{object_format}")
    keys = allow(alice) if kind == "ssh" else TrustedKeys(gpg_keys=alice.public)
    commit = site.repository.commit({"a": "1"})
    id_ = alice.tag(site.repository, "v1", commit, message="Release\n\nwith words\n")
    assert (await site.tag("v1", id_, commit, keys)).kind == kind


async def test_the_outermost_tag_of_a_tag_is_the_one_that_counts(site: SignatureSite, tmp_path: Path) -> None:
    alice = ssh_signer(tmp_path, "alice")
    commit = site.repository.commit({"a": "1"})
    site.repository.tag("inner", commit, message="Unsigned")
    outer = alice.tag(site.repository, "outer", "refs/tags/inner")
    assert await site.tag("outer", outer, commit, allow(alice))
    inner = alice.tag(site.repository, "inner", commit)
    site.repository.tag("outer", inner, message="Unsigned")
    unsigned = site.repository.git("rev-parse", "refs/tags/outer").decode().strip()
    with pytest.raises(Stalled, match="is not signed"):
        await site.tag("outer", unsigned, commit, allow(alice))


async def test_tags_of_tags_without_end_are_not_followed(site: SignatureSite, tmp_path: Path) -> None:
    alice = ssh_signer(tmp_path, "alice")
    commit = site.repository.commit({"a": "1"})
    site.repository.tag("t0", commit, message="0")
    for number in range(1, 20):
        site.repository.tag(f"t{number}", f"refs/tags/t{number - 1}", message=str(number))
    top = alice.tag(site.repository, "top", "refs/tags/t19")
    with pytest.raises(Stalled, match="leads to tag"):
        await site.tag("top", top, commit, allow(alice))


async def test_without_any_keys_nothing_is_accepted(site: SignatureSite, tmp_path: Path) -> None:
    commit = ssh_signer(tmp_path, "alice").commit(site.repository, {"a": "1"})
    with pytest.raises(Misconfigured, match="neither allowed signers nor GPG keys"):
        await site.commit(commit, TrustedKeys())
    with pytest.raises(Misconfigured, match="neither"):
        await check_signature(
            site.remote(),
            site.repository.path,
            mode=SignatureMode.TAG,
            ref=GitRef("v1"),
            commit=commit,
            keys=TrustedKeys(),
        )


async def test_keys_beyond_the_bound_are_refused(site: SignatureSite, tmp_path: Path) -> None:
    alice = ssh_signer(tmp_path, "alice")
    commit = alice.commit(site.repository, {"a": "1"})
    lines = allow(alice).allowed_signers or b""
    with pytest.raises(Misconfigured, match="longer than"):
        await site.commit(commit, TrustedKeys(lines + b"#" * MAX_KEYS_BYTES))


async def test_a_private_key_among_the_keys_is_refused(
    site: SignatureSite, tmp_path: Path, gpg: GpgHome
) -> None:
    alice, bob = ssh_signer(tmp_path, "alice"), gpg.signer("bob-private")
    commit = bob.commit(site.repository, {"a": "1"})
    binary = gpg.gpg("--export-secret-keys", "bob-private")
    for keys in (
        TrustedKeys((tmp_path / "alice").read_bytes() + alice.public),
        TrustedKeys(gpg_keys=gpg.gpg("--armor", "--export-secret-keys", "bob-private")),
        TrustedKeys(gpg_keys=binary),
    ):
        with pytest.raises(Misconfigured, match="private key"):
            await site.commit(commit, keys)


@pytest.mark.parametrize(("program", "package"), [("ssh-keygen", "openssh-client"), ("gpg", "gnupg")])
async def test_a_missing_program_is_named_with_its_package(
    site: SignatureSite,
    tmp_path: Path,
    gpg: GpgHome,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    package: str,
) -> None:
    signer = ssh_signer(tmp_path, "alice") if program == "ssh-keygen" else gpg.signer("nobody")
    keys = allow(signer) if program == "ssh-keygen" else TrustedKeys(gpg_keys=signer.public)
    commit = signer.commit(site.repository, {"a": "1"})
    only_git = tmp_path / "bin"
    only_git.mkdir()
    (only_git / "git").symlink_to("/usr/bin/git")
    monkeypatch.setenv("PATH", str(only_git))
    with pytest.raises(Misconfigured, match=f"{program}.*{package}"):
        await site.commit(commit, keys)
    assert site.left_over() == []


async def test_a_user_without_a_name_reads_why_ssh_signatures_cannot_be_checked(
    site: SignatureSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = ssh_signer(tmp_path, "alice")
    commit = alice.commit(site.repository, {"a": "1"})
    monkeypatch.setattr(os, "getuid", lambda: 3_999_999)
    with pytest.raises(Misconfigured, match=r"3999999.*/etc/passwd"):
        await site.commit(commit, allow(alice))


def program_on_path(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = folder / "bin"
    place.mkdir()
    (place / name).write_text(f"#!/bin/sh\n{script}\n")
    (place / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")


async def test_a_check_that_hangs_is_ended_and_leaves_nothing(
    site: SignatureSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = ssh_signer(tmp_path, "alice")
    commit = alice.commit(site.repository, {"a": "1"})
    program_on_path(tmp_path, "ssh-keygen", "sleep 60", monkeypatch)
    monkeypatch.setattr(programs, "TIMEOUT", 0.2)
    with pytest.raises(Retry, match="took longer"):
        await site.commit(commit, allow(alice))
    assert site.left_over() == []


async def test_a_check_that_says_too_much_is_ended(
    site: SignatureSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = ssh_signer(tmp_path, "alice")
    commit = alice.commit(site.repository, {"a": "1"})
    program_on_path(tmp_path, "ssh-keygen", "exec cat /dev/zero", monkeypatch)
    with pytest.raises(Retry, match="printed more than"):
        await site.commit(commit, allow(alice))


async def test_a_cancelled_check_ends_its_program_and_removes_its_files(
    site: SignatureSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = ssh_signer(tmp_path, "alice")
    commit = alice.commit(site.repository, {"a": "1"})
    mark = tmp_path / "pid"
    program_on_path(
        tmp_path, "ssh-keygen", f"echo $$ > {mark}.new; mv {mark}.new {mark}; sleep 60", monkeypatch
    )
    checking = asyncio.create_task(site.commit(commit, allow(alice)))

    async def started() -> bool:
        return mark.exists()

    await eventually_async(started)
    assert [oct(folder.stat().st_mode & 0o777) for folder in site.left_over()] == ["0o700"]
    checking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await checking
    assert site.left_over() == []
    assert mark.read_text().strip() not in running()


async def test_no_agent_is_started_and_no_home_is_used(
    site: SignatureSite, tmp_path: Path, gpg: GpgHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GNUPGHOME", str(gpg.folder))
    stranger, alice = gpg.signer("stranger"), gpg.signer("alice-home")
    commit = stranger.commit(site.repository, {"a": "1"})
    with pytest.raises(Stalled, match="none of the GPG keys"):  # although GNUPGHOME knows the key
        await site.commit(commit, TrustedKeys(gpg_keys=alice.public))
    assert list(home.iterdir()) == []
    assert not [line for line in running().values() if "gpg-agent" in line and str(tmp_path) in line]


class SignedTagSite(SignatureSite):
    """A mirror that holds only a commit, as one fetch of it leaves it."""

    def __init__(self, folder: Path, server: GitHttpServer) -> None:
        super().__init__(folder)
        self.repository = Repository.create(server.root / "r.git")
        self.mirror = Repository.create(folder / "mirrors" / "m.git")
        self.url = server.url("r.git")

    def follow(self, commit: CommitId) -> None:
        self.mirror.git(
            "fetch", "--quiet", "--depth=1", "--no-tags", self.url, f"+{commit}:refs/stoker/wanted"
        )

    async def check(self, ref: str, commit: CommitId, keys: TrustedKeys) -> VerifiedSignature | None:
        return await check_signature(
            self.remote(self.url),
            self.mirror.path,
            mode=SignatureMode.TAG,
            ref=GitRef(ref),
            commit=commit,
            keys=keys,
        )


@pytest.fixture
def tags(tmp_path: Path, git_http: GitHttpServer) -> SignedTagSite:
    return SignedTagSite(tmp_path, git_http)


@pytest.mark.parametrize("ref", ["v1", "refs/tags/v1"])
async def test_the_tag_object_is_brought_into_the_mirror_and_nothing_else(
    tags: SignedTagSite, git_http: GitHttpServer, tmp_path: Path, ref: str
) -> None:
    alice = ssh_signer(tmp_path, "alice")
    tags.repository.commit({"older": "1"})
    tags.follow(tags.repository.commit({"old": "1"}))
    commit = tags.repository.commit({"a": "1"})
    tags.repository.tag("inner", commit, message="Inner")
    id_ = alice.tag(tags.repository, "v1", "refs/tags/inner")
    tags.mirror.git("fetch", "--quiet", "--no-tags", tags.url, f"+{commit}:refs/stoker/wanted")
    tags.mirror.git("update-ref", "-d", "refs/stoker/wanted")  # that the commit is here must suffice

    def state() -> tuple[str, bytes, bytes]:
        place = tags.mirror.path
        return (
            (place / "shallow").read_text(),
            (place / "config").read_bytes(),
            tags.mirror.git("for-each-ref"),
        )

    def objects() -> set[bytes]:
        arguments = ("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
        return set(tags.mirror.git(*arguments).split())

    def packs() -> set[Path]:
        return set((tags.mirror.path / "objects/pack").glob("*.idx"))

    before, had, packed = state(), objects(), packs()
    signed = await tags.check(ref, commit, allow(alice))
    assert signed is not None
    assert signed.by == "alice@example.test"
    assert state() == before
    inner = tags.repository.git("rev-parse", "refs/tags/inner").strip()
    assert objects() - had == {id_.encode(), inner}
    (pack,) = packs() - packed
    assert len(tags.mirror.git("show-index", stdin=pack.read_bytes()).splitlines()) == 2

    git_http.requests.clear()
    assert await tags.check(ref, commit, allow(alice)) == signed
    assert all("upload-pack" in request.path for request in git_http.requests)
    assert len(git_http.requests) == 2, "the tag is here; only what it is now was asked for"


async def test_what_is_not_an_annotated_tag_is_refused_by_name(tags: SignedTagSite, tmp_path: Path) -> None:
    alice = ssh_signer(tmp_path, "alice")
    commit = alice.commit(tags.repository, {"a": "1"})
    tags.repository.tag("light", commit)
    tags.repository.tag("plain", commit, message="Unsigned")
    tags.follow(commit)
    for ref in ("main", "light", "plain", "refs/heads/main", "HEAD", str(commit)):
        with pytest.raises(Stalled, match=rf"'{ref}'") as refused:
            await tags.check(ref, commit, allow(alice))
        assert refused.value.reason is Reason.SIGNATURE_MISSING


async def test_a_tag_that_moved_while_it_was_looked_at_is_refused(
    tags: SignedTagSite, tmp_path: Path
) -> None:
    alice = ssh_signer(tmp_path, "alice")
    commit = tags.repository.commit({"a": "1"})
    tags.follow(commit)
    moved = tags.repository.commit({"a": "2"})
    alice.tag(tags.repository, "v1", moved)
    with pytest.raises(Stalled, match=f"leads to {moved} by now, not to commit {commit}"):
        await fetch_tag_object(tags.remote(tags.url), tags.mirror.path, "v1", commit)


async def test_no_mode_asks_for_nothing(site: SignatureSite) -> None:
    commit = site.repository.commit({"a": "1"})
    nothing = await check_signature(
        site.remote("https://127.0.0.1:1/none.git"),
        site.repository.path,
        mode=SignatureMode.NONE,
        ref=GitRef("main"),
        commit=commit,
        keys=TrustedKeys(),
    )
    assert nothing is None


def test_a_name_may_mean_a_tag_and_other_refs_may_not() -> None:
    assert tag_name(GitRef("v1")) == "v1"
    assert tag_name(GitRef("refs/tags/release/v1")) == "release/v1"
    for ref in ("refs/heads/v1", "HEAD", "1" * 40, "2" * 64):
        with pytest.raises(Stalled, match="not a tag"):
            tag_name(GitRef(ref))
