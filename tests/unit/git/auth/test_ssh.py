"""SSH keys and known hosts: what is repaired, what is refused, and which hosts are known."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from stoker.domain.errors import InvalidValue, Misconfigured
from stoker.domain.refs import RepoUrl
from stoker.domain.secrets import Secret
from stoker.git.auth.credentials import GitSshKey, RepoAccess
from stoker.git.auth.known_hosts import MAX_BYTES, known_hosts_name, known_keys, lines_for, offered_key
from stoker.git.auth.ssh import (
    MAX_KEY_BYTES,
    UNVERIFIED_HOST_WARNING,
    install_ssh,
    repair_key,
    ssh_environment,
    strip_ssh_debug,
)
from stoker.git.errors import HostKeyNotTrusted
from stoker.git.process import passwd
from stoker.git.process.runner import GitRunner
from stoker_testkit.repositories.ssh_keys import make_ssh_key

FORMS = serialization.PrivateFormat


def pem(key: object, form: FORMS, password: bytes | None = None) -> bytes:
    assert isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey)
    hidden = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, hidden)


RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
PLAIN = [
    pem(RSA, FORMS.TraditionalOpenSSL),
    pem(RSA, FORMS.PKCS8),
    pem(RSA, FORMS.OpenSSH),
    pem(EC, FORMS.TraditionalOpenSSL),
    pem(ED, FORMS.OpenSSH),
]


@pytest.mark.parametrize("key", PLAIN, ids=lambda key: key.split(b"\n")[0].decode())
def test_a_key_is_repaired_to_what_ssh_reads(key: bytes) -> None:
    for stored in (
        key,
        key.rstrip(),
        key.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + key,
        b"\n \t" + key + b"\n\n ",
    ):
        assert repair_key(Secret(stored)) == key


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (pem(RSA, FORMS.TraditionalOpenSSL, b"x"), "encrypted"),
        (pem(RSA, FORMS.PKCS8, b"x"), "encrypted"),
        (b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ1 me@host\n", "public key"),
        (b"ecdsa-sha2-nistp256 AAAA me", "public key"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "public key"),
        (b"---- BEGIN SSH2 PUBLIC KEY ----\n", "public key"),
        (b"PuTTY-User-Key-File-3: ssh-ed25519\n", "PuTTY"),
        (b"", "not a private key"),
        (b"canary", "not a private key"),
        (b"\xff\xfe\0", "not a private key"),
        (PLAIN[0][:-40], "not a private key"),
        (b"x" * (MAX_KEY_BYTES + 1), "larger than"),
    ],
)
def test_what_is_no_usable_key_is_refused_in_words_and_not_shown(key: bytes, words: str) -> None:
    with pytest.raises(InvalidValue, match=words) as refused:
        repair_key(Secret(key))
    assert "canary" not in refused.value.message
    assert "AAAA" not in refused.value.message


def test_an_openssh_key_with_a_passphrase_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "phrase", "-f", path], check=True)
    with pytest.raises(InvalidValue, match="encrypted"):
        repair_key(Secret(path.read_bytes()))


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("git@github.com:o/r.git", "github.com"),
        ("GitHub.com:o/r.git", "github.com"),
        ("ssh://git@git.test/r", "git.test"),
        ("ssh://git@git.test:22/r", "git.test"),
        ("ssh://git@git.test:2222/r", "[git.test]:2222"),
        ("ssh://git@[::1]:2222/r", "[::1]:2222"),
    ],
)
def test_a_host_is_named_as_ssh_names_it(url: str, name: str) -> None:
    assert known_hosts_name(RepoUrl(url)) == name


def test_the_same_keys_are_known_as_ssh_knows(tmp_path: Path) -> None:
    lines = [make_ssh_key(tmp_path / f"k{n}").public_line for n in range(8)]
    names = [
        "git.test",
        "other.test",
        "[git.test]:2222",
        "*.test,!git.test",
        "GIT.test,10.0.0.1",
        "g?t.*",
        "[*.test]:2222",
        "@revoked git.test",
    ]
    path = tmp_path / "known_hosts"
    content = "".join(f"{name} {line} comment\n" for name, line in zip(names, lines, strict=True))
    for hashed in (False, True):
        path.write_text(f"# comment\n\n{content}" + ("" if hashed else "half a line\ngit.test ssh-rsa %%%\n"))
        if hashed:
            subprocess.run(["ssh-keygen", "-H", "-f", path], check=True, capture_output=True)
            assert path.read_bytes().count(b"|1|") >= 3
        for host in ("git.test", "[git.test]:2222", "other.test", "nobody.example", "10.0.0.1"):
            argv = ["ssh-keygen", "-l", "-F", host, "-f", path]
            output = subprocess.run(argv, check=False, capture_output=True, text=True).stdout
            expected = sorted(word for word in output.split() if word.startswith("SHA256:"))
            assert sorted(key.fingerprint for key in known_keys(path.read_bytes(), host)) == expected


KNOWN = b"""
[git.test]:2222 ssh-rsa EXACT comment
@cert-authority [*.test]:2222 ssh-rsa AUTHORITY
git.test ssh-rsa BARE
@revoked *.test ssh-rsa REVOKED
[git.test]:23 ssh-rsa OTHER
"""


@pytest.mark.parametrize(
    ("port", "lines"),
    [
        (22, KNOWN),
        (
            2222,
            (
                b"git.test ssh-rsa EXACT\n@cert-authority git.test ssh-rsa AUTHORITY\n"
                b"@revoked git.test ssh-rsa REVOKED\n"
            ),
        ),
        (23, b"git.test ssh-rsa OTHER\n@revoked git.test ssh-rsa REVOKED\n"),
        (24, b"git.test ssh-rsa BARE\n@revoked git.test ssh-rsa REVOKED\n"),
    ],
)
def test_ssh_gets_the_lines_of_a_port_under_the_name_alone(port: int, lines: bytes) -> None:
    assert lines_for(KNOWN, "git.test", port) == lines


def test_a_hostile_pattern_costs_no_time() -> None:
    line = b"*a" * 500 + b"b ssh-rsa AAAA\n"
    assert list(known_keys(line * 10, "a" * 250)) == []


def test_debug_output_of_ssh_is_read_and_left_out() -> None:
    result = (
        "OpenSSH_9.2p1 Debian, OpenSSL 3\ndebug1: Connecting to x\n"
        "debug1: Server host key: ssh-ed25519 SHA256:abc+/1\n"
        "Authenticated to x using publickey.\nfatal: no such repository\n"
    )
    assert strip_ssh_debug(result) == "fatal: no such repository\n"
    assert str(offered_key(result)) == "ssh-ed25519 SHA256:abc+/1"
    assert offered_key("nothing") is None


EFFECTIVE = """
batchmode yes
identityfile key
identitiesonly yes
identityagent none
addkeystoagent false
preferredauthentications publickey
userknownhostsfile known_hosts
globalknownhostsfile /dev/null
updatehostkeys false
verifyhostkeydns false
checkhostip no
canonicalizehostname false
controlmaster false
permitlocalcommand no
clearallforwardings yes
forwardagent no
forwardx11 no
requesttty false
hostkeyalias git.test
connecttimeout 30
serveraliveinterval 15
serveralivecountmax 4
"""


@pytest.mark.parametrize(("strict", "shown"), [("yes", "true"), ("no", "false")])
def test_ssh_itself_says_what_it_would_do(tmp_path: Path, strict: str, shown: str) -> None:
    """`ssh -G` does not connect and prints every effective setting."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "STOKER_SSH_FOLDER": str(tmp_path),
        "STOKER_SSH_HOST": "git.test",
        "STOKER_SSH_STRICT": strict,
    }
    argv = [str(install_ssh(tmp_path)), "-G", "git@git.test"]
    output = subprocess.run(argv, env=environment, check=True, capture_output=True, text=True).stdout
    effective = set(output.lower().splitlines())
    assert {*EFFECTIVE.split("\n")} - {""} <= effective
    assert f"stricthostkeychecking {shown}" in effective
    assert not [line for line in effective if line.startswith(("proxycommand", "proxyjump", "controlpath"))]


def test_a_host_key_is_accepted_unseen_only_without_known_hosts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    url, key = RepoUrl("git@git.test:r.git"), Secret(PLAIN[4])
    for known_hosts, required, strict in ((b"", True, "yes"), (b"", False, "yes"), (None, False, "no")):
        result = ssh_environment(tmp_path, url, GitSshKey(key, known_hosts), required)
        assert result["STOKER_SSH_STRICT"] == strict
        assert (UNVERIFIED_HOST_WARNING in capfd.readouterr().err) == (known_hosts is None)
        assert all((tmp_path / name).stat().st_mode & 0o777 == 0o600 for name in ("key", "known_hosts"))
    with pytest.raises(HostKeyNotTrusted, match=r"known_hosts is demanded and not given for git\.test"):
        ssh_environment(tmp_path, url, GitSshKey(key), True)
    with pytest.raises(InvalidValue, match="known_hosts is larger"):
        ssh_environment(tmp_path, url, GitSshKey(key, b"x" * (MAX_BYTES + 1)), True)


def no_passwd_entry(uid: int) -> None:
    raise KeyError(uid)


async def test_a_user_without_an_entry_in_passwd_gets_the_reason_that_ssh_does_not_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ssh itself ends with "No user exists for uid", whatever its options are."""
    monkeypatch.setattr(pwd, "getpwuid", no_passwd_entry)
    monkeypatch.setattr(passwd, "nss_wrapper_path", lambda: None)
    url, access = RepoUrl("git@127.0.0.1:r.git"), RepoAccess(GitSshKey(Secret(PLAIN[4])))
    with pytest.raises(Misconfigured, match=f"ssh refuses to run for user id {os.getuid()}"):
        await GitRunner(tmp_path / "cache").run(["ls-remote"], [url], url=url, access=access)


def test_a_user_without_an_entry_gets_one_that_only_ssh_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pwd, "getpwuid", no_passwd_entry)
    monkeypatch.setattr(passwd, "nss_wrapper_path", lambda: Path("/lib/wrapper.so"))
    login = GitSshKey(Secret(PLAIN[4]))
    environment = ssh_environment(tmp_path, RepoUrl("git@127.0.0.1:r.git"), login, False)
    assert "LD_PRELOAD" not in environment  # git itself runs without it
    assert environment["STOKER_SSH_PRELOAD"] == "/lib/wrapper.so"
    line = Path(environment["NSS_WRAPPER_PASSWD"]).read_text().split(":")
    assert line[2:4] == [str(os.getuid()), str(os.getgid())]
    assert Path(environment["NSS_WRAPPER_GROUP"]).read_text().split(":")[2] == str(os.getgid())


def test_a_user_with_an_entry_needs_nothing_of_it(tmp_path: Path) -> None:
    environment = ssh_environment(
        tmp_path, RepoUrl("git@127.0.0.1:r.git"), GitSshKey(Secret(PLAIN[4])), False
    )
    assert sorted(environment) == [
        "GIT_SSH_VARIANT",
        "STOKER_SSH_FOLDER",
        "STOKER_SSH_HOST",
        "STOKER_SSH_STRICT",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key", "known_hosts"]
