"""Credentials of a repository: distinguished without being shown."""

from __future__ import annotations

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.refs import RepoUrl
from stoker.domain.secrets import Secret
from stoker.git.auth.credentials import GitPassword, GitSshKey, RepoAccess, access_identity

URL = RepoUrl("https://git.test/r.git")
LINES = ("Y2FuYXJ5LW9mLWEta2V5LW9uZQ==", "Y2FuYXJ5LW9mLWEta2V5LXR3bw==")
KEY = "\n".join(("-----BEGIN OPENSSH PRIVATE KEY-----", *LINES, "-----END OPENSSH PRIVATE KEY-----"))


def test_nothing_secret_is_shown() -> None:
    for access in (
        RepoAccess(GitPassword("me", Secret("canary"))),
        RepoAccess(GitSshKey(Secret(KEY))),
        RepoAccess(proxy="http://me:canary@proxy.test:3128"),
    ):
        assert "canary" not in repr(access) + str(access)
        assert "Y2FuYX" not in repr(access)


def test_everything_secret_is_hidden_in_each_of_its_forms() -> None:
    hidden = set(
        RepoAccess(GitPassword("me", Secret("c@nary")), proxy="http://you:pr%40xy@proxy.test").hidden()
    )
    assert hidden >= {"c@nary", "c%40nary", "bWU6Y0BuYXJ5", "you:pr%40xy", "pr%40xy", "pr@xy"}
    assert tuple(RepoAccess(GitSshKey(Secret(KEY))).hidden()) == LINES
    assert list(RepoAccess(proxy="http://proxy.test:3128").hidden()) == []


@pytest.mark.parametrize("canary", ["two\nlines", "nul\0", "return\r"])
def test_a_password_is_one_line(canary: str) -> None:
    for name, word in ((canary, "x"), ("x", canary)):
        with pytest.raises(InvalidValue, match="one line") as refused:
            GitPassword(name, Secret(word))
        assert canary not in refused.value.message


def test_whatever_may_see_something_else_has_another_identity() -> None:
    accesses = [
        RepoAccess(),
        RepoAccess(GitPassword("a", Secret("bc"))),
        RepoAccess(GitPassword("ab", Secret("c"))),
        RepoAccess(GitPassword("a", Secret("other"))),
        RepoAccess(GitSshKey(Secret("a"))),
        RepoAccess(GitSshKey(Secret("abc"))),
        RepoAccess(proxy="http://one.test"),
        RepoAccess(proxy="http://two.test"),
        RepoAccess(ca=b"one"),
        RepoAccess(subject="app/1/2"),
        RepoAccess(subject="app/1/3"),
    ]
    names = [access_identity(b"key", URL, access) for access in accesses]
    assert len(set(names)) == len(names)
    assert access_identity(b"another key", URL, RepoAccess()) not in names
    assert access_identity(b"key", RepoUrl("https://git.test/s.git"), RepoAccess()) not in names


def test_what_changes_without_opening_anything_else_keeps_the_identity() -> None:
    one = RepoAccess(GitPassword("x", Secret("token 1")), subject="app/1/2")
    other = RepoAccess(GitPassword("x", Secret("token 2")), subject="app/1/2")
    assert access_identity(b"key", URL, one) == access_identity(b"key", URL, other)
    key = RepoAccess(GitSshKey(Secret("key\n"), b"host ssh-rsa AAAA"))
    assert access_identity(b"key", URL, key) == access_identity(
        b"key", URL, RepoAccess(GitSshKey(Secret("key")))
    )
