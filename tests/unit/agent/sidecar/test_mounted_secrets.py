"""Secrets as the kubelet mounts them, and the logins that are made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.identity import AgentPaths
from stoker.agent.sidecar.mounted_secrets import MAX_BYTES, MountedSecrets, metadata_key
from stoker.agent.sync.credentials import access_reader
from stoker.domain.errors import InvalidValue, Misconfigured
from stoker.domain.intent.source import GitAuthKind, GitAuthPolicy, SecretKey, SourceIntent
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef, RepoUrl
from stoker.domain.secrets import Secret
from stoker.git.auth.credentials import GitPassword, GitSshKey
from stoker_testkit.environments.agent_pod import AgentPod

TOKEN = SecretKey("git", "token")
API_KEY = SecretKey("gateway", "apiKey")


@pytest.fixture
def pod(tmp_path: Path) -> AgentPod:
    return AgentPod.create(tmp_path, "plant")


@pytest.fixture
def secrets(pod: AgentPod) -> MountedSecrets:
    return MountedSecrets(AgentPaths(pod.root), TOKEN, API_KEY)


def test_each_secret_is_read_from_its_own_place_and_anew_each_time(
    pod: AgentPod, secrets: MountedSecrets
) -> None:
    pod.mount("git-credentials", {"token": "one\n", "username": "me"})
    pod.mount("api-key", {"apiKey": "stoker:key\n"})
    pod.mount("secrets/trust", {"ca.crt": "PEM"})
    assert secrets.line(TOKEN) == Secret("one")
    assert secrets.line(SecretKey("git", "username")) == Secret("me")
    assert secrets.api_key(API_KEY)() == Secret("stoker:key")
    assert secrets.read(SecretKey("trust", "ca.crt")) == b"PEM"
    before = secrets.stamps()
    pod.mount("git-credentials", {"token": "two\n"})
    assert secrets.stamps() != before
    assert secrets.line(TOKEN) == Secret("two")


def test_a_single_mounted_file_is_the_one_key_that_was_meant(pod: AgentPod, secrets: MountedSecrets) -> None:
    (pod.root / "etc/stoker/git-credentials").write_text("alone")
    assert secrets.line(TOKEN) == Secret("alone")
    assert not secrets.has(SecretKey("git", "username"))


@pytest.mark.parametrize(
    "wanted",
    [SecretKey("git", "../token"), SecretKey("..", "x"), SecretKey("a/b", "c"), SecretKey("git", "")],
)
def test_a_name_cannot_lead_out_of_its_place(
    pod: AgentPod, secrets: MountedSecrets, wanted: SecretKey
) -> None:
    pod.mount("git-credentials", {"token": "one"})
    (pod.root / "etc/stoker/x").write_text("outside")
    assert not secrets.has(wanted)
    with pytest.raises(Misconfigured):
        secrets.read(wanted)


def test_what_is_missing_is_named_with_its_place_and_never_with_its_content(
    pod: AgentPod, secrets: MountedSecrets
) -> None:
    with pytest.raises(
        Misconfigured, match=r"'git' with key 'token' is not mounted.*git-credentials/token"
    ) as why:
        secrets.read(TOKEN)
    assert why.value.reason is Reason.SECRET_NOT_FOUND
    pod.mount("git-credentials", {"token": " \n"})
    with pytest.raises(Misconfigured, match="is empty"):
        secrets.read(TOKEN)
    pod.mount("git-credentials", {"token": "s3cret\nlines"})
    with pytest.raises(InvalidValue, match="one line of text") as malformed:
        secrets.line(TOKEN)
    assert "s3cret" not in malformed.value.message
    pod.mount("git-credentials", {"token": "x" * (MAX_BYTES + 1)})
    with pytest.raises(Misconfigured, match="larger than"):
        secrets.read(TOKEN)
    pod.mount("api-key", {"apiKey": "no-name"})
    with pytest.raises(InvalidValue) as malformed:
        secrets.api_key(API_KEY)()
    assert malformed.value.reason is Reason.TOKEN_MALFORMED


def source(auth: GitAuthPolicy) -> SourceIntent:
    return SourceIntent(RepoUrl("https://git.example.test/plant.git"), GitRef("main"), auth)


async def test_a_minted_token_is_preferred_to_the_key_of_the_app(
    pod: AgentPod, secrets: MountedSecrets
) -> None:
    auth = GitAuthPolicy(GitAuthKind.GITHUB_APP, SecretKey("git", "privateKey"), app_id=1, installation_id=2)
    pod.mount("git-credentials", {"token": "minted", "privateKey": "no key at all"})
    access = await access_reader(source(auth), secrets)()
    assert access.login == GitPassword("x-access-token", Secret("minted"))
    pod.mount("git-credentials", {"privateKey": "no key at all"})
    with pytest.raises(InvalidValue, match="private key"):
        await access_reader(source(auth), secrets)()


async def test_user_names_keys_and_known_hosts_come_from_the_same_secret(
    pod: AgentPod, secrets: MountedSecrets
) -> None:
    pod.mount("git-credentials", {"username": "me", "password": "pw", "ssh": "KEY", "known_hosts": "h k"})
    basic = await access_reader(
        source(GitAuthPolicy(GitAuthKind.BASIC, SecretKey("git", "password"))), secrets
    )()
    assert basic.login == GitPassword("me", Secret("pw"))
    auth = GitAuthPolicy(GitAuthKind.SSH, SecretKey("git", "ssh"), SecretKey("git", "known_hosts"))
    ssh = await access_reader(source(auth), secrets, require_known_hosts=True)()
    assert ssh.login == GitSshKey(Secret("KEY"), b"h k")
    assert ssh.require_known_hosts


def test_a_metadata_key_that_is_there_and_unreadable_believes_nothing(pod: AgentPod) -> None:
    places = AgentPaths(pod.root)
    assert metadata_key(places) is None
    pod.mount("metadata-key", {"key": "between us\n"})
    assert metadata_key(places) == Secret("between us")
    pod.mount("metadata-key", {})
    assert metadata_key(places) == Secret("")


def test_a_mount_that_is_written_anew_is_noticed_whichever_it_is(
    pod: AgentPod, secrets: MountedSecrets
) -> None:
    seen = [secrets.stamps()]
    for place in (
        "git-credentials",
        "api-key",
        "metadata-key",
        "secrets/hosts",
        "secrets/forge",
        "secrets/hosts",
    ):
        pod.mount(place, {"key": str(len(seen))})
        assert secrets.stamps() not in seen, place
        seen.append(secrets.stamps())
    assert secrets.stamps() == seen[-1]
