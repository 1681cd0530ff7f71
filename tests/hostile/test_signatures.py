"""Signatures that look good and are not: whatever is tried, the answer is a refusal with a reason.

Objects are written byte by byte, so they hold what git would not write. All keys and
signatures are real; the attacker has a key of their own and everything that the
trusted people ever published.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stoker.domain.errors import Misconfigured, Stalled
from stoker.domain.intent.source import SignatureMode
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId
from stoker.git.process.runner import GitRunner
from stoker.git.remote.tags import TagObject
from stoker.git.signature.signed_objects import MAX_OBJECT_BYTES
from stoker.git.signature.verify import TrustedKeys, VerifiedSignature, verify_signature
from stoker_testkit.repositories.commit_signers import GpgHome, Signer, certified_signer, ssh_signer
from stoker_testkit.repositories.malicious_repository import MaliciousRepository

MISSING, INVALID = Reason.SIGNATURE_MISSING, Reason.SIGNATURE_INVALID


@pytest.fixture(scope="module")
def gpg() -> Iterator[GpgHome]:
    with GpgHome.make() as home:
        yield home


@pytest.fixture(scope="module")
def anybody(gpg: GpgHome) -> Signer:
    return gpg.signer("anybody")


class Attack(MaliciousRepository):
    """By a signer who must not pass for Alice."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "evil.git")
        self.folder = folder
        self.runner = GitRunner(folder / "cache")
        self.alice = ssh_signer(folder, "alice")
        self.mallory = ssh_signer(folder, "mallory")
        self.keys = TrustedKeys(allowed_signers=b"alice@example.test " + self.alice.public + b"\n")

    async def accepted(self, commit: CommitId, keys: TrustedKeys | None = None) -> VerifiedSignature:
        place = self.repository.path
        mode = SignatureMode.COMMIT
        return await verify_signature(
            self.runner, place, mode=mode, commit=commit, tag=None, keys=keys or self.keys
        )

    async def accepted_tag(self, name: str, id_: str, commit: CommitId) -> VerifiedSignature:
        place, mode = self.repository.path, SignatureMode.TAG
        tag = TagObject(name, id_)
        return await verify_signature(self.runner, place, mode=mode, commit=commit, tag=tag, keys=self.keys)

    async def assert_refused(
        self, commit: CommitId, reason: Reason, says: str, keys: TrustedKeys | None = None
    ) -> None:
        with pytest.raises(Stalled, match=says) as caught:
            await self.accepted(commit, keys)
        assert caught.value.reason is reason
        assert "\n" not in caught.value.message
        assert len(caught.value.message) < 500

    async def assert_refused_tag(
        self, name: str, id_: str, commit: CommitId, reason: Reason, says: str
    ) -> None:
        with pytest.raises(Stalled, match=says) as caught:
            await self.accepted_tag(name, id_, commit)
        assert caught.value.reason is reason


@pytest.fixture
def attack(tmp_path: Path) -> Attack:
    return Attack(tmp_path)


def signature_header(raw: bytes) -> bytes:
    """The header with the signature, all of its lines, as it is in a commit."""
    match = re.search(rb"^gpgsig [^\n]*\n(?: [^\n]*\n)*", raw, re.MULTILINE)
    assert match is not None
    return match[0]


def signed_by_alice(attack: Attack, content: bytes, namespace: str) -> bytes:
    """Her signature over any bytes, in its armour."""
    place = attack.folder / "content"
    place.write_bytes(content)
    key = attack.alice.config["user.signingkey"]
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-n", namespace, "-f", key, place], check=True)
    return place.with_name("content.sig").read_bytes().strip()


async def test_a_commit_without_a_signature(attack: Attack) -> None:
    commit = attack.repository.commit({"a": "1"})
    await attack.assert_refused(commit, MISSING, f"commit {commit} is not signed")


async def test_a_commit_signed_by_another_key(attack: Attack) -> None:
    commit = attack.mallory.commit(attack.repository, {"a": "1"})
    await attack.assert_refused(commit, INVALID, r"ssh key SHA256:\S+, which the allowed signers do not name")


async def test_an_unsigned_commit_on_top_of_a_signed_one(attack: Attack) -> None:
    good = attack.alice.commit(attack.repository, {"a": "1"})
    assert await attack.accepted(good)
    await attack.assert_refused(attack.repository.commit({"a": "2"}), MISSING, "not signed")


async def test_an_unsigned_commit_under_a_signed_tag_in_the_mode_for_commits(attack: Attack) -> None:
    commit = attack.repository.commit({"a": "1"})
    attack.alice.tag(attack.repository, "v1", commit)
    await attack.assert_refused(commit, MISSING, "not signed")


async def test_the_text_of_a_signature_in_the_message(attack: Attack) -> None:
    good = attack.read(attack.alice.commit(attack.repository, {"a": "1"}))
    header = signature_header(good)
    body = header.replace(b"gpgsig ", b"").replace(b"\n ", b"\n")
    unsigned = good.replace(header, b"")
    await attack.assert_refused(attack.write("commit", unsigned + b"\n" + header), MISSING, "not signed")
    await attack.assert_refused(attack.write("commit", unsigned + b"\n" + body), MISSING, "not signed")


@pytest.mark.parametrize(
    "tamper",
    [
        lambda raw: raw.replace(b"Signed\n", b"Signed!\n"),
        lambda raw: re.sub(rb"^tree [0-9a-f]+", b"tree " + b"4b825dc642cb6eb9a060e54bf8d69288fbee4904", raw),
        lambda raw: raw.replace(b"author Test", b"author Best"),
        lambda raw: raw.replace(b"\nauthor", b"\nparent " + b"1" * 40 + b"\nauthor", 1),
        lambda raw: raw.replace(b"\n\n", b"\nencoding latin-1\n\n", 1),
        lambda raw: raw + b"\n",
    ],
    ids=["message", "tree", "author", "parent", "header", "end"],
)
async def test_signed_content_that_was_changed_afterwards(
    attack: Attack, tamper: Callable[[bytes], bytes]
) -> None:
    good = attack.read(attack.alice.commit(attack.repository, {"a": "1"}))
    assert tamper(good) != good
    await attack.assert_refused(attack.write("commit", tamper(good)), INVALID, "does not fit its content")


async def test_the_signature_of_another_commit(attack: Attack) -> None:
    header = signature_header(attack.read(attack.alice.commit(attack.repository, {"a": "1"})))
    plain = attack.read(attack.repository.commit({"a": "2"}))
    commit = attack.write("commit", plain.replace(b"\n\n", b"\n" + header + b"\n", 1))
    await attack.assert_refused(commit, INVALID, "does not fit its content")


@pytest.mark.parametrize("order", ["good first", "good last"])
async def test_two_signatures_in_one_commit(attack: Attack, order: str) -> None:
    good = attack.read(attack.alice.commit(attack.repository, {"a": "1"}))
    other = attack.read(attack.mallory.commit(attack.repository, {"a": "2"}))
    headers = [signature_header(good), signature_header(other)]
    if order == "good last":
        headers.reverse()
    commit = attack.write("commit", good.replace(signature_header(good), b"".join(headers)))
    await attack.assert_refused(commit, INVALID, "more than one signature")


async def test_a_second_signature_under_the_name_for_other_ids(attack: Attack) -> None:
    good = attack.read(attack.alice.commit(attack.repository, {"a": "1"}))
    header = signature_header(good)
    both = good.replace(header, header + header.replace(b"gpgsig ", b"gpgsig-sha256 "))
    await attack.assert_refused(attack.write("commit", both), INVALID, "more than one signature")
    only = good.replace(header, header.replace(b"gpgsig ", b"gpgsig-sha256 "))
    await attack.assert_refused(attack.write("commit", only), INVALID, "other kind of object id")


async def test_two_signatures_in_one_header(attack: Attack) -> None:
    good = attack.read(attack.alice.commit(attack.repository, {"a": "1"}))
    header = signature_header(good)
    twice = header + header.replace(b"gpgsig ", b" ")
    await attack.assert_refused(attack.write("commit", good.replace(header, twice)), INVALID, "alone")
    behind = header + b" trailing words\n"
    await attack.assert_refused(attack.write("commit", good.replace(header, behind)), INVALID, "alone")


async def test_parents_behind_the_signature_that_git_does_not_read(attack: Attack) -> None:
    attack.alice.commit(attack.repository, {"a": "1"})
    good = attack.read(attack.alice.commit(attack.repository, {"a": "2"}))
    header = signature_header(good)
    tree, rest = good.replace(header, b"").split(b"\n", 1)
    commit = attack.write("commit", tree + b"\n" + header + rest)
    parents = attack.repository.git("rev-list", "--parents", "-1", commit).split()
    assert len(parents) == 1, "git sees a commit without parents; Alice signed one with a parent"
    await attack.assert_refused(commit, INVALID, "git's order")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda raw: raw.replace(b"\nauthor", b"\0\nauthor", 1), "zero byte"),
        (lambda raw: raw + b"\0tail", "zero byte"),
        (lambda raw: raw.replace(b"\nauthor", b"\nnovalue\nauthor", 1), "without a name or a value"),
        (lambda raw: b" " + raw, "without a name or a value"),
        (lambda raw: raw.replace(b"\nauthor", b"\ntree " + b"1" * 40 + b"\nauthor", 1), "git's order"),
        (lambda raw: raw.replace(b"\n\n", b"\ncommitter M <m@example.test> 1 +0000\n\n", 1), "git's order"),
        (lambda raw: re.sub(rb"(committer [^\n]*>)[^\n]*", rb"\1 yesterday", raw), "when it was made"),
        (
            lambda raw: re.sub(rb"(committer [^\n]*>)[^\n]*", rb"\1 99999999999999 +0000", raw),
            "when it was made",
        ),
    ],
    ids=["nul", "nul behind", "no value", "space", "two trees", "two committers", "no time", "far time"],
)
async def test_objects_that_programs_read_differently_even_if_alice_signed_them(
    attack: Attack, change: Callable[[bytes], bytes], says: str
) -> None:
    content = change(attack.read(attack.repository.commit({"a": "1"})))
    header = b"gpgsig " + signed_by_alice(attack, content, "git").replace(b"\n", b"\n ") + b"\n"
    commit = attack.write("commit", content.replace(b"\n\n", b"\n" + header + b"\n", 1))
    await attack.assert_refused(commit, INVALID, says)


async def test_an_object_that_ends_in_its_headers(attack: Attack) -> None:
    good = attack.read(attack.alice.commit(attack.repository, {"a": "1"}))
    commit = attack.write("commit", good.split(b"\n\n")[0] + b"\n")
    await attack.assert_refused(commit, INVALID, "ends within its headers")


@pytest.mark.parametrize(
    "signature",
    [
        b"-----BEGIN SSH SIGNATURE-----\n-----END SSH SIGNATURE-----",
        b"-----BEGIN SSH SIGNATURE-----\n!!!!\n-----END SSH SIGNATURE-----",
        b"-----BEGIN SSH SIGNATURE-----\nU1NIU0lHAAAAAQAAAP8=\n-----END SSH SIGNATURE-----",
        b"-----BEGIN PGP SIGNATURE-----\n\n-----END PGP SIGNATURE-----",
        b"-----BEGIN PGP SIGNATURE-----\nx",
        b"-----BEGIN PGP MESSAGE-----\n\nowE=\n-----END PGP MESSAGE-----",
        b"-----BEGIN SIGNED MESSAGE-----\nMII=\n-----END SIGNED MESSAGE-----",
        b"good",
        b'Good "git" signature for alice@example.test',
    ],
    ids=["empty", "junk", "cut", "empty pgp", "open pgp", "message", "x509", "word", "sentence"],
)
async def test_things_that_are_no_signature(attack: Attack, signature: bytes) -> None:
    plain = attack.read(attack.repository.commit({"a": "1"}))
    header = b"gpgsig " + signature.replace(b"\n", b"\n ") + b"\n"
    commit = attack.write("commit", plain.replace(b"\n\n", b"\n" + header + b"\n", 1))
    await attack.assert_refused(commit, INVALID, f"commit {commit} has a signature that")


async def test_a_signature_that_was_made_for_something_else_than_git(attack: Attack) -> None:
    """Alice signs files with the same key; one of them was a commit in disguise."""
    plain = attack.read(attack.repository.commit({"a": "1"}))
    signature = signed_by_alice(attack, plain, "file")
    header = b"gpgsig " + signature.replace(b"\n", b"\n ") + b"\n"
    commit = attack.write("commit", plain.replace(b"\n\n", b"\n" + header + b"\n", 1))
    await attack.assert_refused(commit, INVALID, "made for something else than git")


async def test_other_bytes_under_the_id_of_a_signed_commit(attack: Attack) -> None:
    """The mirror is a cache on a disk: the content under an id need not be the one of the id."""
    victim = attack.repository.commit({"evil": "1"})
    good = attack.read(attack.alice.commit(attack.repository, {"a": "1"}))
    place = attack.repository.path / "objects" / victim[:2] / victim[2:]
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    for pack in (attack.repository.path / "objects/pack").iterdir():
        pack.unlink()
    place.write_bytes(zlib.compress(b"commit %d\0" % len(good) + good))
    await attack.assert_refused(victim, INVALID, f"something else than commit {victim}")


async def test_a_replacement_of_a_commit_by_a_signed_one(attack: Attack) -> None:
    good = attack.alice.commit(attack.repository, {"a": "1"})
    evil = attack.repository.commit({"evil": "1"})
    attack.repository.git("update-ref", f"refs/replace/{evil}", good)
    with pytest.raises(Stalled):
        await attack.accepted(evil)


async def test_an_object_of_any_size(attack: Attack) -> None:
    good = attack.read(attack.alice.commit(attack.repository, {"a": "1"}))
    commit = attack.write("commit", good + b"x" * MAX_OBJECT_BYTES)
    await attack.assert_refused(commit, INVALID, f"checked up to {MAX_OBJECT_BYTES}")
    many = b"".join(b" \n" for _ in range(400_000))  # quick to refuse, also when it is all header
    commit = attack.write("commit", good.replace(b"\n\n", b"\nnote x\n" + many + b"\n", 1))
    await attack.assert_refused(commit, INVALID, "does not fit its content")


@pytest.mark.parametrize(
    "lines",
    [b"garbage\n", b"\xff\xfe\x00", b"alice@example.test ssh-ed25519 AAAA\n", b"alice@example.test\n"],
    ids=["garbage", "bytes", "half a key", "no key"],
)
async def test_allowed_signers_without_content_allow_no_signer(attack: Attack, lines: bytes) -> None:
    commit = attack.alice.commit(attack.repository, {"a": "1"})
    await attack.assert_refused(commit, INVALID, "do not name", TrustedKeys(lines))


@pytest.mark.parametrize("lines", [b"", b"\n \n", b"# alice is gone\n"])
async def test_empty_allowed_signers_allow_no_signer(attack: Attack, lines: bytes) -> None:
    commit = attack.alice.commit(attack.repository, {"a": "1"})
    with pytest.raises(Misconfigured, match="name no signer"):
        await attack.accepted(commit, TrustedKeys(lines))


async def test_a_certificate_for_a_name_that_is_not_allowed(attack: Attack) -> None:
    bob = certified_signer(attack.folder, "bob", principals="bob@elsewhere.test")
    commit = bob.commit(attack.repository, {"a": "1"})
    allowed = TrustedKeys(b"*@example.test cert-authority " + bob.public)
    await attack.assert_refused(commit, INVALID, "do not name", allowed)


async def test_a_certificate_that_the_signer_made_for_themselves(attack: Attack) -> None:
    bob = certified_signer(attack.folder, "bob", principals="alice@example.test")
    carol = certified_signer(attack.folder, "carol", principals="alice@example.test")
    commit = carol.commit(attack.repository, {"a": "1"})
    allowed = TrustedKeys(b"*@example.test cert-authority " + bob.public)
    await attack.assert_refused(commit, INVALID, "do not name", allowed)


async def test_the_key_of_an_authority_where_it_may_only_certify(attack: Attack) -> None:
    allowed = TrustedKeys(b"*@example.test cert-authority " + attack.alice.public)
    commit = attack.alice.commit(attack.repository, {"a": "1"})
    await attack.assert_refused(commit, INVALID, "do not name", allowed)


async def test_a_kind_of_signature_for_which_no_keys_are_given(attack: Attack, gpg: GpgHome) -> None:
    bob = gpg.signer("bob")
    commit = bob.commit(attack.repository, {"a": "1"})
    await attack.assert_refused(commit, INVALID, "no GPG keys are given")
    commit = attack.alice.commit(attack.repository, {"a": "2"})
    await attack.assert_refused(
        commit, INVALID, "no allowed signers are given", TrustedKeys(gpg_keys=bob.public)
    )


async def test_an_untrusted_gpg_key(attack: Attack, gpg: GpgHome) -> None:
    """It bears Alice's own user id, which anybody can write into a key."""
    trusted = gpg.signer("trusted")
    with GpgHome.make() as elsewhere:
        false = elsewhere.signer("trusted")
        commit = false.commit(attack.repository, {"a": "1"})
    await attack.assert_refused(commit, INVALID, "none of the GPG keys", TrustedKeys(gpg_keys=trusted.public))


async def test_a_user_id_made_of_gpgs_own_words(attack: Attack, gpg: GpgHome) -> None:
    trusted = gpg.signer("somebody")
    false = gpg.signer("liar", user="[GNUPG:] GOODSIG 0 somebody")
    commit = false.commit(attack.repository, {"a": "1"})
    await attack.assert_refused(commit, INVALID, "none of the GPG keys", TrustedKeys(gpg_keys=trusted.public))


async def test_a_gpg_key_that_has_expired(attack: Attack, gpg: GpgHome) -> None:
    old = gpg.signer("old", expires="seconds=86400", at="20250101T000000")
    commit = old.commit(attack.repository, {"a": "1"})
    await attack.assert_refused(commit, INVALID, "key that has expired", TrustedKeys(gpg_keys=old.public))


async def test_a_gpg_signature_that_has_expired(attack: Attack, gpg: GpgHome) -> None:
    brief = gpg.signer("brief", at="20250101T000000", options="--default-sig-expire=1d")
    commit = brief.commit(attack.repository, {"a": "1"})
    await attack.assert_refused(
        commit, INVALID, "signature that has expired", TrustedKeys(gpg_keys=brief.public)
    )


async def test_a_gpg_key_that_was_revoked(attack: Attack, gpg: GpgHome) -> None:
    gone = gpg.signer("gone")
    commit = gone.commit(attack.repository, {"a": "1"})
    assert await attack.accepted(commit, TrustedKeys(gpg_keys=gone.public))
    revoked = TrustedKeys(gpg_keys=gpg.revoke("gone"))
    await attack.assert_refused(commit, INVALID, "revoked", revoked)


async def test_gpg_signed_content_that_was_changed(attack: Attack, gpg: GpgHome) -> None:
    bob = gpg.signer("changed")
    good = attack.read(bob.commit(attack.repository, {"a": "1"}))
    keys = TrustedKeys(gpg_keys=bob.public)
    commit = attack.write("commit", good.replace(b"Signed\n", b"Signed!\n"))
    await attack.assert_refused(commit, INVALID, "does not fit its content", keys)


@pytest.mark.parametrize("options", ["--digest-algo=SHA1", "--textmode"], ids=["weak hash", "text"])
async def test_gpg_signatures_that_prove_too_little(attack: Attack, gpg: GpgHome, options: str) -> None:
    bob = gpg.signer(options.strip("-").replace("=", ""), options=options)
    commit = bob.commit(attack.repository, {"a": "1"})
    await attack.assert_refused(commit, INVALID, "proves too little", TrustedKeys(gpg_keys=bob.public))


def pgp_header(raw: bytes) -> bytes:
    return b"gpgsig -----BEGIN PGP SIGNATURE-----\n \n %b-----END PGP SIGNATURE-----\n" % (
        base64.encodebytes(raw).replace(b"\n", b"\n ")
    )


def pgp_bytes(header: bytes) -> bytes:
    lines = header.replace(b"\n ", b"\n").splitlines()
    return base64.b64decode(b"".join(line for line in lines[2:-1] if not line.startswith(b"=")))


async def test_a_gpg_signature_with_more_than_itself(attack: Attack, gpg: GpgHome) -> None:
    """Two signatures, or one that brings content of its own, which gpg could check instead of ours."""
    bob, eve = gpg.signer("twice"), gpg.signer("eve")
    keys = TrustedKeys(gpg_keys=bob.public)
    good = attack.read(bob.commit(attack.repository, {"a": "1"}))
    header = signature_header(good)
    own = pgp_bytes(header)
    assert await attack.accepted(attack.write("commit", good.replace(header, pgp_header(own))), keys)
    other = pgp_bytes(signature_header(attack.read(eve.commit(attack.repository, {"a": "2"}))))
    literal = bytes([0xCB, 8]) + b"b\0" + b"\0" * 4 + b"hi"
    whole = gpg.gpg("--sign", "--local-user", "twice", stdin=b"hello")
    for raw in (
        own + own,
        own + other,
        other + own,
        literal + own,
        own + literal,
        whole,
        own[:-1],
        b"\xff" * 9,
    ):
        commit = attack.write("commit", good.replace(header, pgp_header(raw)))
        await attack.assert_refused(commit, INVALID, "cannot be read", keys)


@pytest.mark.parametrize("content", [b"", b"garbage", b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDM=\n"])
async def test_invalid_gpg_keys_allow_no_signer(attack: Attack, anybody: Signer, content: bytes) -> None:
    commit = anybody.commit(attack.repository, {"a": "1"})
    with pytest.raises(Misconfigured, match="no public key"):
        await attack.accepted(commit, TrustedKeys(gpg_keys=content))


GOOD = "GOODSIG AA Alice\n[GNUPG:] VALIDSIG AA 2026-01-01 1 0 4 0 22 8 00 AA"


@pytest.mark.parametrize(
    ("says", "code"),
    [
        ("", 0),
        ("", 1),
        ("NEWSIG", 0),
        (f"NEWSIG\n[GNUPG:] {GOOD}", 1),
        (f"{GOOD}", 0),
        (f"NEWSIG\n[GNUPG:] {GOOD}\n[GNUPG:] NEWSIG", 0),
        (f"NEWSIG\n[GNUPG:] {GOOD}\n[GNUPG:] {GOOD}", 0),
        ("NEWSIG\n[GNUPG:] GOODSIG AA Alice", 0),
        ("NEWSIG\n[GNUPG:] GOODSIG AA Alice\n[GNUPG:] VALIDSIG AA", 0),
        ("NEWSIG\n[GNUPG:] VALIDSIG AA 2026-01-01 1 0 4 0 22 8 00 AA", 0),
        (f"NEWSIG\n[GNUPG:] {GOOD}".replace("00 AA", "00 BB"), 0),
        (f"NEWSIG\n[GNUPG:] {GOOD}\n[GNUPG:] SOMETHING NEW\n[GNUPG:] BADSIG AA Alice", 0),
        (f"NEWSIG\n[GNUPG:] {GOOD}".replace("[GNUPG:]", "gpg:"), 0),
    ],
)
async def test_a_gpg_that_does_not_say_all_that_it_must(
    attack: Attack, anybody: Signer, monkeypatch: pytest.MonkeyPatch, says: str, code: int
) -> None:
    """Versions differ, and a program can be cut short; only the whole answer counts."""
    commit = anybody.commit(attack.repository, {"a": "1"})
    place = attack.folder / "bin"
    place.mkdir()
    (place / "verified").write_text(f"[GNUPG:] {says}\n")
    (place / "imported").write_text(
        "[GNUPG:] IMPORT_OK 1 AA\n[GNUPG:] IMPORT_RES 1 0 1 0 0 0 0 0 0 0 0 0 0 0 0\n"
    )
    script = f'case "$*" in *--import*) cat {place}/imported ;; *) cat {place}/verified; exit {code} ;; esac'
    (place / "gpg").write_text(f"#!/bin/sh\n{script}\n")
    (place / "gpg").chmod(0o700)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    await attack.assert_refused(commit, INVALID, "GPG signature that", TrustedKeys(gpg_keys=b"any"))
    (place / "verified").write_text(f"[GNUPG:] NEWSIG\n[GNUPG:] {GOOD}\n")
    if code == 0:
        assert await attack.accepted(commit, TrustedKeys(gpg_keys=b"any")) == VerifiedSignature(
            "Alice", "gpg", "AA"
        )


async def test_a_signed_tag_passed_off_as_another_release(attack: Attack) -> None:
    old = attack.repository.commit({"a": "hole"})
    id_ = attack.alice.tag(attack.repository, "v1", old)
    assert await attack.accepted_tag("v1", id_, old)
    attack.repository.git("update-ref", "refs/tags/v2", id_)
    await attack.assert_refused_tag("v2", id_, old, INVALID, "'v2' was signed under another name, 'v1'")


async def test_a_signed_tag_that_leads_elsewhere(attack: Attack) -> None:
    good = attack.repository.commit({"a": "1"})
    evil = attack.repository.commit({"a": "evil"})
    id_ = attack.alice.tag(attack.repository, "v1", good)
    await attack.assert_refused_tag("v1", id_, evil, INVALID, f"leads to commit {good}, not to commit {evil}")
    tree = attack.repository.git("rev-parse", f"{evil}^{{tree}}").decode().strip()
    id_ = attack.alice.tag(attack.repository, "v1", tree)
    await attack.assert_refused_tag("v1", id_, evil, INVALID, "leads to tree")


async def test_a_tag_with_another_signature_or_none(attack: Attack) -> None:
    commit = attack.alice.commit(attack.repository, {"a": "1"})  # that the commit is signed helps nothing
    id_ = attack.mallory.tag(attack.repository, "v1", commit)
    await attack.assert_refused_tag("v1", id_, commit, INVALID, "do not name")
    attack.repository.tag("v1", commit, message="Unsigned")
    id_ = attack.repository.git("rev-parse", "refs/tags/v1").decode().strip()
    await attack.assert_refused_tag("v1", id_, commit, MISSING, "'v1' is not signed")


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: re.sub(rb"^object [0-9a-f]+", b"object " + b"1" * 40, raw),
        lambda raw: raw.replace(b"Release", b"Rebuild"),
        lambda raw: raw + b"more words\n",
        lambda raw: raw + raw[raw.index(b"-----BEGIN") :],
        lambda raw: raw.replace(b"-----BEGIN", b" -----BEGIN"),
        lambda raw: raw.replace(b"\ntagger", b"\ngpgsig x\ntagger"),
        lambda raw: raw.replace(b"\ntype commit", b""),
        lambda raw: raw.replace(b"\ntag v1\n", b"\ntag v1\ntag v1\n"),
        lambda raw: raw.replace(b"tag v1\n", b"tag v1 \n"),
        lambda raw: raw.replace(b"tag v1\n", b"tag \xff\n"),
        lambda raw: raw.replace(b"Release", b"Rel\0ase"),
    ],
    ids=[
        "object",
        "text",
        "tail",
        "twice",
        "moved",
        "header",
        "no type",
        "two names",
        "space",
        "bytes",
        "nul",
    ],
)
async def test_signed_tags_that_were_changed(attack: Attack, change: Callable[[bytes], bytes]) -> None:
    commit = attack.repository.commit({"a": "1"})
    good = attack.read(attack.alice.tag(attack.repository, "v1", commit))
    assert change(good) != good
    id_ = attack.write("tag", change(good))
    with pytest.raises(Stalled) as caught:
        await attack.accepted_tag("v1", id_, commit)
    assert caught.value.reason in (MISSING, INVALID)


async def test_no_file_is_left_after_any_of_it(attack: Attack) -> None:
    before = sorted(attack.folder.iterdir())
    await attack.accepted(attack.alice.commit(attack.repository, {"a": "1"}))
    with pytest.raises(Stalled):
        await attack.accepted(attack.mallory.commit(attack.repository, {"a": "2"}))
    assert before == sorted(attack.folder.iterdir())
