"""An unchanged Secret keeps its ciphertext, also after a restart; everything else is sealed anew."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyrage  # type: ignore[import-untyped]
import pytest

from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.git_objects import blob_of
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.git.commit.types import FileEdit
from stoker.reverser.encryption.digests import NEWEST, DigestKeys
from stoker.reverser.encryption.sealer import SopsSealer
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.manifest.secret_policy import (
    DIGEST_KEYS,
    SecretPolicy,
    UnchangedSecret,
    WithheldSecret,
    object_content,
)
from stoker_testkit.services.sops_decrypt import opened

BASE = "clusters/prod"
PATH = f"{BASE}/core/v1/secrets/shop/db.yaml"
DIGESTS = f"{BASE}/.configbutler/digests"
ADA, BOB = pyrage.x25519.Identity.generate(), pyrage.x25519.Identity.generate()
PUBLIC = (str(ADA.to_public()),)
OLD, NEW = Secret(b"o" * 32), Secret(b"n" * 32)


def secret(value: str = "aHVudGVyMg==", **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "db", "namespace": "shop", "labels": labels},
        "data": {"password": value},
    }


class Repository:
    """What git has, and the sealers of one reverser after the other."""

    def __init__(self, digits: int = 40) -> None:
        self.files: dict[str, bytes] = {}
        self.digits = digits

    def sealer(self, *keys: Secret, recipients: Iterable[str] = PUBLIC) -> SopsSealer:
        """As a reverser that has just been started has it."""
        known = DigestKeys(*(keys or (NEW,)))
        sealer = SopsSealer(tuple(recipients), known, BASE, self.blob, digits=self.digits)
        sealer.load(self.files.get(sealer.path))
        return sealer

    def blob(self, path: str) -> str | None:
        return blob_of(self.files[path], digits=self.digits) if path in self.files else None

    def commit(self, sealer: SopsSealer, *edits: FileEdit) -> None:
        for edit in (*edits, *sealer.joined(edits)):
            if edit.content is None:
                self.files.pop(edit.path, None)
            else:
                self.files[edit.path] = edit.content

    def write(self, sealer: SopsSealer, plain: dict[str, Any], path: str = PATH) -> bool:
        """Whether something had to be written."""
        content = sealer.sealed(path, plain)
        if isinstance(content, UnchangedSecret):
            assert content.blob == self.blob(path)
            return False
        self.commit(sealer, FileEdit(path, content))
        return True


@pytest.mark.parametrize("digits", [40, 64])
def test_unchanged_plaintext_keeps_its_ciphertext_also_after_a_restart(digits: int) -> None:
    repository = Repository(digits)
    sealer = repository.sealer()
    assert repository.write(sealer, secret())
    before = dict(repository.files)
    assert set(before) == {PATH, DIGESTS}
    assert opened(before[PATH], ADA) == secret()
    assert not repository.write(sealer, secret())
    assert not repository.write(repository.sealer(), secret())
    assert repository.files == before


def test_a_change_is_sealed_anew() -> None:
    repository = Repository()
    repository.write(repository.sealer(), secret())
    assert repository.write(repository.sealer(), secret("b3RoZXI="))
    assert opened(repository.files[PATH], ADA) == secret("b3RoZXI=")
    assert repository.write(repository.sealer(), secret("b3RoZXI=", tier="db"))


def test_other_recipients_get_it_sealed_anew() -> None:
    repository = Repository()
    repository.write(repository.sealer(), secret())
    both = (*PUBLIC, str(BOB.to_public()))
    assert repository.write(repository.sealer(recipients=both), secret())
    assert opened(repository.files[PATH], BOB) == secret()
    assert not repository.write(repository.sealer(recipients=reversed(both)), secret())
    only_bob = both[1:]
    assert repository.write(repository.sealer(recipients=only_bob), secret())


def test_a_replaced_file_is_written_anew() -> None:
    repository = Repository()
    repository.write(repository.sealer(), secret())
    repository.files[PATH] += b"# touched\n"
    assert repository.write(repository.sealer(), secret())
    # Also by one that was sealed for the right people, with a digest of theirs.
    theirs = Repository()
    theirs.write(theirs.sealer(Secret(b"t" * 32)), secret())
    repository.files = theirs.files
    assert repository.write(repository.sealer(), secret())


def test_a_digest_counts_at_its_own_path_alone() -> None:
    repository = Repository()
    repository.write(repository.sealer(), secret())
    other = PATH.replace("db.yaml", "other.yaml")
    repository.files[other] = repository.files[PATH]
    repository.files[DIGESTS] += repository.files[DIGESTS].splitlines()[-1].replace(b"db", b"other") + b"\n"
    assert repository.write(repository.sealer(), secret(), other)


def test_lost_and_broken_digests_only_cost_a_write() -> None:
    for broken in (None, b"", b"\xff\xfe", b"core/v1/secrets/shop/db.yaml: 12", b"x" * 100):
        repository = Repository()
        repository.write(repository.sealer(), secret())
        if broken is None:
            del repository.files[DIGESTS]
        else:
            repository.files[DIGESTS] = broken
        assert repository.write(repository.sealer(), secret())
        assert not repository.write(repository.sealer(), secret())


def test_keys_are_rotated_without_writing_files_anew() -> None:
    repository = Repository()
    repository.write(repository.sealer(OLD), secret())
    sealed = repository.files[PATH]
    both = repository.sealer(NEW, OLD)
    assert not repository.write(both, secret())
    # With the next commit, whatever it is about, the digests are those of the new key.
    repository.commit(both, FileEdit(f"{BASE}/core/v1/configmaps/shop/x.yaml", b"x"))
    assert not repository.write(repository.sealer(NEW), secret())
    assert repository.files[PATH] == sealed
    assert repository.write(repository.sealer(OLD), secret())


def test_old_keys_are_all_that_the_secret_has_besides() -> None:
    keys = DigestKeys.of({"old-1": b"1" * 32, NEWEST: b"2" * 32, "old-2": b"3" * 32})
    for age, key in enumerate((b"2", b"1", b"3")):
        digest = DigestKeys(Secret(key * 32)).digest(b"said", "blob")
        assert keys.age_of(digest, b"said", "blob") == age
        assert keys.age_of(digest, b"said", "other blob") is None
        assert keys.age_of(digest, b"other", "blob") is None


def test_the_keys_themselves_are_never_written() -> None:
    key = ManifestKey("", "v1", "secrets", "shop", "db")
    keys = {**secret(), "type": DIGEST_KEYS}
    for policy in SecretPolicy:
        assert isinstance(
            object_content(keys, key, PATH, policy=policy, sealer=Repository().sealer()), WithheldSecret
        )


def test_what_was_sealed_and_not_taken_on_is_sealed_again() -> None:
    repository = Repository()
    sealer = repository.sealer()
    assert isinstance(sealer.sealed(PATH, secret()), bytes)
    assert isinstance(sealer.sealed(PATH, secret()), bytes)
    repository.write(sealer, secret())
    assert isinstance(sealer.sealed(PATH, secret("b3RoZXI=")), bytes)  # there was no room for it
    assert not repository.write(sealer, secret())
    assert repository.write(sealer, secret("b3RoZXI="))
    assert not repository.write(repository.sealer(), secret("b3RoZXI="))


def test_a_push_that_failed_and_is_made_again_has_the_digests() -> None:
    repository = Repository()
    sealer = repository.sealer()
    content = sealer.sealed(PATH, secret())
    assert isinstance(content, bytes)
    edit = FileEdit(PATH, content)
    (lost,) = sealer.joined([edit])
    assert sealer.joined([edit]) == (lost,)
    sealer.load(None)  # as after a refresh, while the change still waits
    repository.commit(sealer, edit)
    assert repository.files[DIGESTS] == lost.content
    assert not repository.write(repository.sealer(), secret())


def test_deleting_a_secret_takes_its_digest_along() -> None:
    repository = Repository()
    sealer = repository.sealer()
    other = PATH.replace("db.yaml", "other.yaml")
    repository.write(sealer, secret())
    repository.write(sealer, secret(), other)
    repository.commit(sealer, FileEdit(PATH, None))
    assert b"db.yaml" not in repository.files[DIGESTS]
    repository.commit(sealer, FileEdit(other, None))
    assert repository.files == {}


def test_commits_without_secrets_leave_the_digests_alone() -> None:
    sealer = Repository().sealer()
    map_ = f"{BASE}/core/v1/configmaps/shop/x.yaml"
    assert sealer.joined([FileEdit(map_, b"x"), FileEdit("core/v1/secrets/shop/db.yaml", b"not below")]) == ()


def test_the_digests_reveal_nothing_of_their_content() -> None:
    one, other = Repository(), Repository()
    one.write(one.sealer(), secret())
    other.write(other.sealer(), secret())
    line = one.files[DIGESTS].splitlines()[-1]
    assert line.startswith(b"core/v1/secrets/shop/db.yaml: ")
    assert len(line.split()[-1]) == 64
    assert line != other.files[DIGESTS].splitlines()[-1], "the same plaintext looks the same"


def test_it_fails_closed() -> None:
    repository = Repository()
    with pytest.raises(Stalled, match="no recipient") as caught:
        repository.sealer(recipients=())
    assert caught.value.reason == Reason.INVALID_SPEC
    with pytest.raises(InvalidValue, match="misspelt"):
        repository.sealer(recipients=(PUBLIC[0][:-1],))
    with pytest.raises(Stalled, match=r"no digest\.key") as caught:
        DigestKeys.of({})
    assert caught.value.reason == Reason.SECRET_NOT_FOUND
    with pytest.raises(InvalidValue, match="fewer than 32 bytes"):
        DigestKeys.of({NEWEST: b"short"})
    with pytest.raises(InvalidValue, match="is not the path of a Secret"):
        repository.sealer().sealed(f"{BASE}/core/v1/configmaps/shop/x.yaml", secret())
