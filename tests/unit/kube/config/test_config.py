"""The server and the identity from every form of a kubeconfig, and an error for every bad one."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from stoker.domain.errors import Misconfigured
from stoker.kube.config import config
from stoker.kube.config.config import ClusterConfig
from stoker.kube.config.credentials import RequestIdentity
from stoker_testkit.certificates import Authority
from stoker_testkit.manual_clock import ManualClock

AUTHORITY = Authority("unit tests")
CANARY = "canary-3f9c1a"  # in place of every secret: it must never be seen in an error or a repr
NOW = datetime.now(UTC)


def b64(data: bytes | str) -> str:
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def kubeconfig(
    *, cluster: Mapping[str, object] | None = None, user: Mapping[str, object] | None = None
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "clusters": [{"name": "dev", "cluster": {"server": "https://host:6443"} | dict(cluster or {})}],
        "users": [{"name": "me", "user": dict(user or {})}],
        "contexts": [{"name": "dev", "context": {"cluster": "dev", "user": "me", "namespace": "shop"}}],
    }


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def load(path: Path, **options: Any) -> ClusterConfig:
    return config.load_config(path, environ={}, clock=ManualClock(NOW), **options)


async def identity(settings: ClusterConfig) -> RequestIdentity:
    return await settings.credentials.current()


async def authorization(settings: ClusterConfig) -> str:
    header = (await identity(settings)).authorization
    return header.reveal() if header else ""


async def test_reads_server_namespace_and_token(tmp_path: Path) -> None:
    settings = load(write(tmp_path / "config", kubeconfig(user={"token": CANARY})))
    assert (settings.server, settings.namespace) == ("https://host:6443", "shop")
    assert settings.source == f"the context 'dev' of the kubeconfig {tmp_path}/config"
    assert await authorization(settings) == f"Bearer {CANARY}"
    assert CANARY not in repr(settings)


async def test_takes_the_context_that_is_asked_for(tmp_path: Path) -> None:
    content = kubeconfig()
    content["clusters"].append({"name": "prod", "cluster": {"server": "https://prod/k8s/clusters/c-1/"}})
    content["contexts"].append({"name": "prod", "context": {"cluster": "prod"}})
    settings = load(write(tmp_path / "config", content), context="prod")
    assert (settings.server, settings.namespace) == ("https://prod/k8s/clusters/c-1", "default")
    assert await identity(settings) == RequestIdentity()


async def test_of_several_files_the_first_wins_and_paths_belong_to_their_file(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(f"token-of-{name}")
    first = kubeconfig(cluster={"server": "https://first"})
    first["users"] = None
    second = kubeconfig(cluster={"server": "https://second"}, user={"tokenFile": "token"})
    second["current-context"] = "other"
    second["contexts"].append({"name": "other", "context": {"cluster": "dev", "user": "me"}})
    files = (
        tmp_path / "missing",
        write(tmp_path / "one" / "config", first),
        write(tmp_path / "two" / "config", second),
    )
    environ = {"KUBECONFIG": os.pathsep.join(map(str, files))}
    settings = config.load_config(environ=environ)
    assert settings.server == "https://first"
    assert settings.namespace == "shop", "the first file's current context is the one"
    assert await authorization(settings) == "Bearer token-of-two"
    assert config.load_config(context="other", environ=environ).server == "https://first"


async def test_the_home_folder_is_the_last_resort(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config", kubeconfig())
    assert config.load_config(environ={"HOME": str(tmp_path)}).server == "https://host:6443"
    with pytest.raises(Misconfigured, match=r"the kubeconfig /nowhere/\.kube/config does not exist"):
        config.load_config(environ={"HOME": "/nowhere"})


async def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{CANARY}\n")
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.pem)
    (tmp_path / "namespace").write_text("shop\n")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    settings = config.in_cluster_config(environ, clock=ManualClock(), folder=tmp_path)
    assert (settings.server, settings.namespace) == ("https://[fd00::1]:6443", "shop")
    assert await authorization(settings) == f"Bearer {CANARY}"
    assert settings.trust.context().get_ca_certs()
    (tmp_path / "namespace").unlink()
    assert config.in_cluster_config(environ, clock=ManualClock(), folder=tmp_path).namespace == "default"


def test_a_pods_account_comes_before_the_home_folder_and_after_kubeconfig(tmp_path: Path) -> None:
    pod = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "HOME": str(tmp_path)}
    with pytest.raises(Misconfigured, match=r"serviceaccount/ca\.crt does not exist"):
        config.load_config(environ=pod)
    path = write(tmp_path / "config", kubeconfig())
    assert config.load_config(environ=pod | {"KUBECONFIG": str(path)}).server == "https://host:6443"
    assert config.load_config(path, environ=pod).server == "https://host:6443"
    with pytest.raises(
        Misconfigured, match="the context 'dev' was asked for, yet inside a pod there are none"
    ):
        config.load_config(context="dev", environ=pod)
    with pytest.raises(Misconfigured, match=f"{tmp_path}/elsewhere/ca.crt does not exist"):
        config.load_config(environ=pod, account=tmp_path / "elsewhere")


async def test_a_password_becomes_a_basic_header(tmp_path: Path) -> None:
    path = write(tmp_path / "config", kubeconfig(user={"username": "me", "password": CANARY}))
    assert await authorization(load(path)) == f"Basic {b64(f'me:{CANARY}')}"


@pytest.mark.parametrize("inline", [True, False], ids=["data", "files"])
async def test_a_client_certificate_is_read(tmp_path: Path, inline: bool) -> None:
    certificate = AUTHORITY.client("me")
    certificate.save(tmp_path, "me")
    user = (
        {"client-certificate-data": b64(certificate.pem), "client-key-data": b64(certificate.key_pem)}
        if inline
        else {"client-certificate": "me.crt", "client-key": str(tmp_path / "me.key")}
    )
    settings = load(write(tmp_path / "config", kubeconfig(user=user)))
    shown = (await identity(settings)).certificate
    assert shown is not None
    assert shown.chain == certificate.pem
    assert shown.key.reveal_bytes() == certificate.key_pem
    assert "PRIVATE" not in repr(shown)
    settings.trust.context(shown)


@pytest.mark.parametrize("inline", [True, False], ids=["data", "file"])
def test_a_certificate_authority_is_the_only_one_trusted(tmp_path: Path, inline: bool) -> None:
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.pem)
    cluster = (
        {"certificate-authority-data": b64(AUTHORITY.pem), "certificate-authority": "ignored"}
        if inline
        else {"certificate-authority": "ca.crt"}
    )
    settings = load(write(tmp_path / "config", kubeconfig(cluster=cluster | {"tls-server-name": "inside"})))
    assert [each["subject"] for each in settings.trust.context().get_ca_certs()] == [
        ((("commonName", "unit tests"),),)
    ]
    assert settings.trust.server_name == "inside"


def test_checking_can_be_switched_off(tmp_path: Path) -> None:
    path = write(tmp_path / "config", kubeconfig(cluster={"insecure-skip-tls-verify": True}))
    context = load(path).trust.context()
    assert (context.check_hostname, context.verify_mode.name) == (False, "CERT_NONE")


def test_a_proxy_is_taken_from_the_kubeconfig_or_the_environment(tmp_path: Path) -> None:
    address = f"http://me:{CANARY}@proxy:3128"
    path = write(tmp_path / "config", kubeconfig(cluster={"proxy-url": address}))
    settings = load(path)
    assert settings.proxy is not None
    assert settings.proxy.reveal() == address
    assert CANARY not in repr(settings)
    plain = write(tmp_path / "plain", kubeconfig())
    assert load(plain).proxy is None
    settings = config.load_config(plain, environ={"HTTPS_PROXY": "proxy:3128"})
    assert settings.proxy is not None
    assert settings.proxy.reveal() == "http://proxy:3128"


def test_impersonation_becomes_headers(tmp_path: Path) -> None:
    user = {
        "as": "carol",
        "as-uid": "7",
        "as-groups": ["one", "two"],
        "as-user-extra": {"example.com/reason": ["a", "b"]},
    }
    assert load(write(tmp_path / "config", kubeconfig(user=user))).impersonate == (
        ("Impersonate-User", "carol"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "one"),
        ("Impersonate-Group", "two"),
        ("Impersonate-Extra-example.com%2Freason", "a"),
        ("Impersonate-Extra-example.com%2Freason", "b"),
    )


def test_names_that_look_like_dates_are_names(tmp_path: Path) -> None:
    content = (
        "current-context: 2024-01-01\nclusters: [{name: 2024-01-01, cluster: {server: 'https://host'}}]\n"
    )
    content += "contexts: [{name: 2024-01-01, context: {cluster: 2024-01-01}}]\n"
    assert load(write(tmp_path / "config", content)).server == "https://host"


EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "plugin", "interactiveMode": "Never"}
EXPIRED = AUTHORITY.client("me", valid_for=timedelta(days=-2))
VALID = AUTHORITY.client("me")
OTHER = AUTHORITY.client("me")
ENCRYPTED_KEY = ec.generate_private_key(ec.SECP256R1()).private_bytes(
    serialization.Encoding.PEM,
    serialization.PrivateFormat.PKCS8,
    serialization.BestAvailableEncryption(CANARY.encode()),
)


def certificate_user(pem: bytes, key: bytes) -> dict[str, object]:
    return {"client-certificate-data": b64(pem), "client-key-data": b64(key)}


BAD_FILES: list[tuple[str, object, str]] = [
    ("empty", "", "{file} names no current context, and none was asked for"),
    ("only null", "clusters: null\ncontexts: null\nusers: null\n", "{file} names no current context"),
    ("not YAML", f"token: {CANARY}\n  {{{{ : - [", "{file} is not YAML (line 2)"),
    ("a tab", f"a:\n\t{CANARY}: x", "{file} is not YAML (line 2)"),
    ("a tag that runs code", "!!python/object/apply:os.system [ls]", "{file} is not YAML"),
    ("binary", "\x00\x01\x02", "{file} is not YAML"),
    ("a list", "[1, 2]", "{file} is not a kubeconfig: Expected `object`, got `array`"),
    (
        "the wrong shape",
        kubeconfig(user={"token": [CANARY]}),
        "{file} is not a kubeconfig: Expected `str` - at `$.users[0].user.token`",
    ),
    ("nested without end", "[" * 5000, "{file} is nested or repeated beyond what a kubeconfig needs"),
    (
        "many aliases",
        "a: &a [" + "x, " * 1000 + "]\nb: [" + "*a, " * 200 + "]",
        "{file} is nested or repeated beyond what a kubeconfig needs",
    ),
    (
        "few aliases that double each other",
        "a0: &a0 {k: v}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40)),
        "{file} is nested or repeated beyond what a kubeconfig needs",
    ),
    (
        "an alias inside of what it repeats",
        "a: &a {<<: *a}",
        "{file} is nested or repeated beyond what a kubeconfig needs",
    ),
    (
        "no such cluster",
        kubeconfig() | {"clusters": []},
        "the context 'dev' of {path} names the cluster 'dev', which no file describes",
    ),
    (
        "no such user",
        kubeconfig() | {"users": []},
        "the context 'dev' of {path} names the user 'me', which no file describes",
    ),
]

CLUSTER = "the cluster of the context 'dev' of {path}"
BAD_CLUSTERS: list[tuple[str, dict[str, object], str]] = [
    ("no server", {"server": ""}, CLUSTER + " names no server"),
    ("no scheme", {"server": "host:6443"}, CLUSTER + " names a server that is not of the form"),
    ("another scheme", {"server": "ftp://host"}, CLUSTER + " names a server that is not of the form"),
    ("a bad port", {"server": "https://host:port"}, CLUSTER + " names a server that is not of the form"),
    (
        "a password",
        {"server": f"https://me:{CANARY}@host"},
        CLUSTER + " names a server that is not of the form",
    ),
    ("a query", {"server": "https://host/?a=b"}, CLUSTER + " names a server that is not of the form"),
    (
        "an authority that is not base64",
        {"certificate-authority-data": "***"},
        "the certificate authority of " + CLUSTER + " is not base64",
    ),
    (
        "an authority that is no certificate",
        {"certificate-authority-data": b64("hello")},
        "the certificate authority of the kubeconfig holds no certificate in PEM form",
    ),
    (
        "an empty authority",
        {"certificate-authority-data": b64(" \n")},
        "the certificate authority of the kubeconfig is empty",
    ),
    (
        "a missing authority",
        {"certificate-authority": "ca.crt"},
        "the certificate authority {folder}/ca.crt does not exist",
    ),
    (
        "an authority that is not to be checked",
        {"certificate-authority-data": b64(AUTHORITY.pem), "insecure-skip-tls-verify": True},
        CLUSTER + " names a certificate authority and asks not to check it",
    ),
    (
        "a proxy of another kind",
        {"proxy-url": f"socks5://me:{CANARY}@proxy:1080"},
        CLUSTER + " names a proxy that is not of the form http://host:port or https://host:port",
    ),
]

USER = "the user 'me' of {path}"
BAD_USERS: list[tuple[str, dict[str, object], str]] = [
    ("a token of two lines", {"token": f"{CANARY}\nX-Evil: 1"}, USER + " holds no usable token"),
    ("a missing token file", {"tokenFile": "token"}, "the token file {folder}/token does not exist"),
    ("an empty token file", {"tokenFile": "empty"}, "the token file {folder}/empty holds no usable token"),
    ("a folder as token file", {"tokenFile": "."}, "the token file {folder} cannot be read: Is a directory"),
    ("a huge token file", {"tokenFile": "huge"}, "the token file {folder}/huge is larger than 1024 KiB"),
    ("a name no file can have", {"tokenFile": "a\0b"}, "has no name that a file can have"),
    (
        "a token and a password",
        {"token": CANARY, "username": "me", "password": CANARY},
        USER + " has both a token and a password, and only one can be used",
    ),
    (
        "an auth-provider",
        {"auth-provider": {"name": "gcp", "config": {"access-token": CANARY}}},
        USER + " uses an auth-provider, which Kubernetes removed in 1.26; use an exec plug-in",
    ),
    (
        "a certificate without a key",
        {"client-certificate-data": b64(VALID.pem)},
        USER + " has a client certificate without its key, or the reverse",
    ),
    (
        "a key without a certificate",
        {"client-key-data": b64(VALID.key_pem)},
        USER + " has a client certificate without its key, or the reverse",
    ),
    (
        "an expired certificate",
        certificate_user(EXPIRED.pem, EXPIRED.key_pem),
        "the client certificate of " + USER + " expired at 20",
    ),
    (
        "another certificate's key",
        certificate_user(VALID.pem, OTHER.key_pem),
        "the client key of " + USER + " does not belong to its certificate, is encrypted or is not a key",
    ),
    (
        "an encrypted key",
        certificate_user(VALID.pem, ENCRYPTED_KEY),
        "the client key of " + USER + " does not belong to its certificate, is encrypted or is not a key",
    ),
    (
        "a certificate that is none",
        certificate_user(b"hello", VALID.key_pem),
        "the client certificate of " + USER + " is not in PEM form",
    ),
    (
        "a certificate that is not base64",
        {"client-certificate-data": "***", "client-key-data": CANARY},
        "the client certificate of " + USER + " is not base64",
    ),
    (
        "a missing certificate file",
        {"client-certificate": "me.crt", "client-key": "me.key"},
        "the client certificate {folder}/me.crt of " + USER + " does not exist",
    ),
    (
        "a group to act as, but no user",
        {"as-groups": ["one"]},
        USER + " says as which group or uid to act, but not as whom",
    ),
    ("a header within a name", {"as": "me\nX-Evil: 1"}, USER + " asks to act as a name that cannot stand"),
    (
        "a plug-in of an unknown version",
        {"exec": EXEC | {"apiVersion": "client.authentication.k8s.io/v1alpha1"}},
        USER + " uses a plug-in of client.authentication.k8s.io/v1alpha1, known are"
        " client.authentication.k8s.io/v1 and client.authentication.k8s.io/v1beta1",
    ),
    (
        "a plug-in that needs a terminal",
        {"exec": EXEC | {"interactiveMode": "Always"}},
        USER + " uses a plug-in that needs a terminal (interactiveMode: Always)",
    ),
    (
        "a plug-in without a command",
        {"exec": EXEC | {"command": ""}},
        USER + " uses a plug-in without a command",
    ),
]

BAD = [
    *BAD_FILES,
    *((name, kubeconfig(cluster=cluster), said) for name, cluster, said in BAD_CLUSTERS),
    *((name, kubeconfig(user=user), said) for name, user, said in BAD_USERS),
]


@pytest.mark.parametrize(("content", "text"), [each[1:] for each in BAD], ids=[each[0] for each in BAD])
def test_a_bad_kubeconfig_is_described_in_one_sentence(tmp_path: Path, content: object, text: str) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "huge").write_bytes(b"x" * 1024 * 1024 + b"x")
    path = write(tmp_path / "config", content)
    with pytest.raises(Misconfigured) as refused:
        load(path)
    expected = text.format(file=f"the kubeconfig {path}", path=path, folder=tmp_path)
    assert expected in refused.value.message
    assert CANARY not in refused.value.message
    assert CANARY not in repr(refused.value)
    assert "\n" not in refused.value.message
    assert refused.value.__cause__ is None


def test_a_kubeconfig_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=f"the kubeconfig {tmp_path}/none does not exist"):
        load(tmp_path / "none")
    with pytest.raises(Misconfigured, match=f"the kubeconfig {tmp_path} cannot be read: Is a directory"):
        load(tmp_path)
    (tmp_path / "large").write_bytes(b"# " + b"x" * 4 * 1024 * 1024)
    with pytest.raises(Misconfigured, match=f"the kubeconfig {tmp_path}/large is larger than 4096 KiB"):
        load(tmp_path / "large")
    with pytest.raises(Misconfigured, match=f"the kubeconfig {tmp_path}/a does not exist"):
        config.load_config(environ={"KUBECONFIG": f"{tmp_path}/a{os.pathsep}{tmp_path}/b"})


def test_a_context_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "config", kubeconfig())
    with pytest.raises(Misconfigured, match=f"the kubeconfig {path} has no context 'prod'"):
        load(path, context="prod")


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({}, {"exec": EXEC}),
        ({}, {"tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"}),
        ({}, {"client-certificate": "/etc/passwd", "client-key": "/etc/shadow"}),
        ({"certificate-authority": "/etc/passwd"}, {}),
    ],
    ids=["a command", "a token file", "a key file", "an authority file"],
)
def test_an_untrusted_kubeconfig_names_neither_commands_nor_files(
    tmp_path: Path, cluster: dict[str, object], user: dict[str, object]
) -> None:
    path = write(tmp_path / "config", kubeconfig(cluster=cluster, user=user))
    with pytest.raises(Misconfigured, match="which a kubeconfig that is not one's own must not"):
        load(path, allow_exec=False)


async def test_an_untrusted_kubeconfig_may_hold_a_token(tmp_path: Path) -> None:
    path = write(tmp_path / "config", kubeconfig(user={"token": CANARY}))
    assert await authorization(load(path, allow_exec=False)) == f"Bearer {CANARY}"


def test_an_unusable_service_account_is_described(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.pem)
    with pytest.raises(Misconfigured, match=f"the token file {tmp_path}/token does not exist"):
        config.in_cluster_config(environ, clock=ManualClock(), folder=tmp_path)
    with pytest.raises(
        Misconfigured, match="the variable KUBERNETES_SERVICE_HOST names a server that is not"
    ):
        config.in_cluster_config({"KUBERNETES_SERVICE_HOST": "a b/c?"}, clock=ManualClock(), folder=tmp_path)
