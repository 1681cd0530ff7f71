"""Logins and connection settings from the keys of Secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.source import GitAuthKind, GitAuthPolicy, SecretKey, SourceIntent
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef, RepoUrl
from stoker.domain.secrets import Secret
from stoker.git.auth.credentials import GitLogin, GitPassword, GitSshKey, RepoAccess
from stoker.git.auth.github_app import GitHubAppTokens, TokenRights
from stoker.git.auth.secret_login import (
    auth_by_keys,
    git_login,
    login_access,
    login_keys,
    source_access,
    source_keys,
)
from stoker_testkit.forges.github_app_login import GitHubAppServer

SOURCE = SourceIntent(RepoUrl("https://git.test/r.git"), GitRef("main"))
TOKEN = GitAuthPolicy(GitAuthKind.TOKEN, SecretKey("git", "token"))
BASIC = GitAuthPolicy(GitAuthKind.BASIC, SecretKey("git", "password"))
SSH = GitAuthPolicy(GitAuthKind.SSH, SecretKey("git", "ssh-privatekey"), SecretKey("hosts", "known_hosts"))


def held(**values: bytes) -> dict[SecretKey, bytes]:
    return {SecretKey("git", key): value for key, value in values.items()}


@pytest.mark.parametrize(
    ("auth", "keys"),
    [
        (GitAuthPolicy(), ()),
        (TOKEN, (SecretKey("git", "token"),)),
        (BASIC, (SecretKey("git", "username"), SecretKey("git", "password"))),
        (SSH, (SecretKey("git", "ssh-privatekey"), SecretKey("hosts", "known_hosts"))),
        (SSH._replace(known_hosts=None), (SecretKey("git", "ssh-privatekey"),)),
    ],
)
def test_each_way_to_authenticate_names_the_keys_that_it_needs(
    auth: GitAuthPolicy, keys: tuple[SecretKey, ...]
) -> None:
    assert login_keys(auth) == keys
    ca = SecretKey("plant-ca", "ca.crt")
    assert source_keys(SOURCE._replace(auth=auth, ca=ca)) == (*keys, ca)


def test_a_token_or_password_is_stripped_and_goes_with_its_user_name() -> None:
    assert git_login(TOKEN, held(token=b"abc\n")) == GitPassword("x-access-token", Secret("abc"))
    assert git_login(TOKEN, held(token=b"abc"), "me") == GitPassword("me", Secret("abc"))
    assert git_login(BASIC, held(username=b"me\n", password=b"p w")) == GitPassword("me", Secret("p w"))


def test_a_source_without_login_needs_no_secret() -> None:
    assert login_access(SOURCE, {}) == RepoAccess()


def test_an_ssh_key_comes_with_its_known_hosts_or_without() -> None:
    values = {SecretKey("git", "ssh-privatekey"): b"key\n", SecretKey("hosts", "known_hosts"): b"one\ntwo\n"}
    assert git_login(SSH, values) == GitSshKey(Secret("key\n"), b"one\ntwo\n")
    assert git_login(SSH._replace(known_hosts=None), values) == GitSshKey(Secret("key\n"), None)


@pytest.mark.parametrize("canary", [b"\xffcanary", b"canary\0", b"canary\nmore"])
@pytest.mark.parametrize(
    ("auth", "values", "key"),
    [
        (TOKEN, {"token": b"CANARY"}, "token"),
        (BASIC, {"username": b"CANARY", "password": b"x"}, "username"),
        (BASIC, {"username": b"x", "password": b"CANARY"}, "password"),
    ],
)
def test_more_than_one_line_is_refused_by_key_and_secret_without_its_value(
    auth: GitAuthPolicy, values: dict[str, bytes], key: str, canary: bytes
) -> None:
    given = {name: value.replace(b"CANARY", canary) for name, value in values.items()}
    with pytest.raises(
        InvalidValue, match=f"key '{key}' of Secret 'git' does not hold one line of text"
    ) as refused:
        git_login(auth, held(**given))
    assert refused.value.reason is Reason.INVALID_VALUE
    assert "canary" not in refused.value.message


def test_a_file_of_an_option_is_refused_by_the_name_of_the_option() -> None:
    key = SecretKey("--token-file", "")
    with pytest.raises(InvalidValue, match=r"^--token-file does not hold one line of text$"):
        git_login(GitAuthPolicy(GitAuthKind.TOKEN, key), {key: b"one\ntwo"})


async def test_certificates_proxy_and_known_hosts_policy_of_the_source_go_with_it() -> None:
    source = SOURCE._replace(ca=SecretKey("git", "ca.crt"), proxy="http://proxy.test:3128")
    values = {SecretKey("git", "ca.crt"): b"PEM"}
    given = await source_access(source, values, GitHubAppTokens(), TokenRights.READ, require_known_hosts=True)
    assert given == RepoAccess(ca=b"PEM", proxy="http://proxy.test:3128", require_known_hosts=True)


async def test_an_app_gets_a_token_of_its_installation(tmp_path: Path) -> None:
    with GitHubAppServer.start(tmp_path) as github:
        auth = GitAuthPolicy(GitAuthKind.GITHUB_APP, SecretKey("git", "pem"), app_id=1, installation_id=2)
        source = SOURCE._replace(url=RepoUrl(github.url("r.git")), auth=auth)
        values = held(pem=github.register(1, 2))
        given = await source_access(source, values, GitHubAppTokens(), TokenRights.READ)
        assert given.login == GitPassword("x-access-token", Secret(github.given[0]))
        assert given.subject == "app/1/2"
        unnamed = source._replace(auth=auth._replace(installation_id=None))
        with pytest.raises(InvalidValue, match="needs its id") as refused:
            await source_access(unnamed, values, GitHubAppTokens(), TokenRights.READ)
        assert refused.value.reason is Reason.INVALID_SPEC


@pytest.mark.parametrize(
    ("values", "login"),
    [
        ({"username": b"me", "password": b"pw"}, GitPassword("me", Secret("pw"))),
        ({"token": b"abc"}, GitPassword("x-access-token", Secret("abc"))),
        ({"token": b"abc", "username": b"me"}, GitPassword("me", Secret("abc"))),
        ({"identity": b"key", "token": b"abc"}, GitSshKey(Secret("key"))),
        ({"identity": b"b", "ssh-privatekey": b"a", "known_hosts": b"h"}, GitSshKey(Secret("a"), b"h")),
    ],
)
def test_the_keys_of_a_secret_decide_how_to_authenticate(values: dict[str, bytes], login: GitLogin) -> None:
    assert git_login(auth_by_keys("git", values), held(**values)) == login


def test_a_secret_without_a_known_key_needs_a_user_name_and_a_password() -> None:
    assert login_keys(auth_by_keys("git", ("pasword",))) == (
        SecretKey("git", "username"),
        SecretKey("git", "password"),
    )
