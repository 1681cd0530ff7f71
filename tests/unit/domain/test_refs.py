"""Refs, commit ids and repository addresses are checked where they are built."""

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.refs import CommitId, GitRef, RepoUrl, SourceUrl, without_userinfo

SHA = "5f0c9d2" + "0" * 33


@pytest.mark.parametrize("text", [SHA, "a" * 64])
def test_a_commit_id_is_a_full_object_id(text: str) -> None:
    assert CommitId(text) == text
    assert CommitId(text).short == text[:8]


@pytest.mark.parametrize(
    "text", ["", "5f0c9d2", SHA.upper().replace("0", "A"), SHA + "0", "g" * 40, f"{SHA}\n"]
)
def test_anything_else_is_no_commit_id(text: str) -> None:
    with pytest.raises(InvalidValue, match="full commit id"):
        CommitId(text)


@pytest.mark.parametrize(
    "text", ["main", "v1.2.3", "feature/line-1", "refs/heads/main", "refs/tags/2.0.0", SHA, "5f0c9d2"]
)
def test_a_ref_as_people_write_it(text: str) -> None:
    assert GitRef(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-main",
        "--upload-pack=touch /tmp/x",
        "a b",
        "a\nb",
        "a..b",
        "HEAD@{1}",
        "@",
        "a~1",
        "a^",
        "a:b",
        "a?",
        "a*",
        "a[b",
        "a\\b",
        "/main",
        "main/",
        "main.",
        "a//b",
        ".hidden",
        "a/.b",
        "a.lock",
        "a/b.lock/c",
        "x" * 256,
        "a\u2028b",
    ],
)
def test_a_ref_that_git_could_misread_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match=r"^ref "):
        GitRef(text)


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("https://git.example.net/plant/config.git", "https"),
        ("http://127.0.0.1:3000/plant.git", "http"),
        ("http://[::1]:3000/plant.git", "http"),
        ("http://git_server:3000/plant@2.git", "http"),
        ("ssh://git@git.example.net:2222/plant.git", "ssh"),
        ("git@git.example.net:plant/config.git", "ssh"),
        ("git.example.net:plant/config.git", "ssh"),
        ("file:///srv/mirror/plant.git", "file"),
    ],
)
def test_the_addresses_that_are_understood(text: str, scheme: str) -> None:
    assert RepoUrl(text) == text
    assert RepoUrl(text).scheme == scheme


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("-oProxyCommand=x", "begins with '-'"),
        ("--upload-pack=x", "begins with '-'"),
        ("ext::sh -c touch% /tmp/x", "space or control"),
        ("ext::sh", "neither a URL nor"),
        ("plant/config", "neither a URL nor"),
        ("/srv/plant.git", "file:///absolute"),
        ("HTTPS://example.test/x.git", "must begin with https://"),
        ("ssh://-oProxyCommand=x/y", "begins with '-'"),
        ("ssh://-u@host/y", "user name that begins with '-'"),
        ("git@host:-x", "path that begins with '-'"),
        ("git@host:", "neither a URL nor"),
        ("git@-oX:y", "neither a URL nor"),
        ("git@[fe80:0:0:0:0:0:0:1]:x.git", "link-local"),
        ("git://host/x.git", "must begin with"),
        ("https:///host/x.git", "names no host"),
        ("file://host/x.git", "file:///absolute"),
        ("file://x", "file:///absolute"),
        ("file://", "file:///absolute"),
        ("https://user:pw@host/x.git", "put credentials into a Secret"),
        ("https://token@host/x.git", "put credentials into a Secret"),
        ("ssh://git:pw@host/x.git", "put credentials into a Secret"),
        ("https://host/x.git?token=1", "query"),
        ("https://host:0/x.git", "port 0"),
        ("https://host:99999/x.git", "cannot be read"),
        ("https://169.254.169.254/x.git", "link-local"),
        ("https://[fe80::1]/x.git", "link-local"),
        ("https://[::ffff:169.254.169.254]/x.git", "link-local"),
        ("https://169.254.169.254./x.git", "link-local"),
        ("https://2852039166/x.git", "link-local"),
        ("https://0xa9fea9fe/x.git", "link-local"),
        ("https://169.254.43518/x.git", "link-local"),
        ("https://0251.0376.0251.0376/x.git", "link-local"),
        ("https://169.254.169%2e254/x.git", "host name with other characters"),
        ("https://169。254。169。254/x.git", "host name with other characters"),
        ("git@2852039166:x.git", "link-local"),
        ("https://host/a b.git", "space or control"),
        ("https://host/\nx.git", "space or control"),
        ("https://host/a\u202eb.git", "space or control"),
        ("https://" + "x" * 3000, "longer than"),
    ],
)
def test_an_address_that_is_wrong_or_dangerous_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(InvalidValue, match=why):
        RepoUrl(text)


def test_what_is_exactly_as_long_as_allowed_is_taken() -> None:
    assert GitRef("x" * 255)
    assert RepoUrl("https://host/" + "x" * (2048 - len("https://host/")))
    assert SourceUrl("s3://plant/" + "x" * (2048 - len("s3://plant/")))
    assert SourceUrl("oci://ghcr.io/" + "a" * 254)


def test_a_password_in_an_address_is_never_shown() -> None:
    with pytest.raises(InvalidValue) as refused:
        RepoUrl("https://user:hunter2@host/x.git")
    assert "hunter2" not in str(refused.value)
    assert without_userinfo("https://user:hunter2@host/x") == "https://host/x"


@pytest.mark.parametrize(
    "text",
    [
        "https://user:hunt@er2@host/x.git",
        "https://user:hunt/er2@host/x.git",
        "https://user:hunt?er2@host/x.git",
        "https://host/x.git?access_key=hunter2",
        "https://host/x.git#hunter2",
    ],
)
def test_no_part_of_a_password_in_an_address_is_shown_wherever_it_is(text: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        RepoUrl(text)
    assert "er2" not in str(refused.value)


def test_an_at_sign_in_a_path_is_no_password() -> None:
    text = "fatal: 'https://host:8080/x@2.git' and https://host/y@3.git are gone, ask me@host"
    assert without_userinfo(text) == text


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("oci://ghcr.io/plant/line-1", "oci"),
        ("oci://127.0.0.1:5000/plant?plainHttp=true", "oci"),
        ("s3://plant", "s3"),
        ("s3://plant/releases/line-1?endpoint=http://minio:9000&region=eu-1", "s3"),
        ("s3://plant/x?endpoint=https://minio:9000", "s3"),
        ("https://git.example.com/x.git", "https"),
        ("git@git.example.com:x.git", "ssh"),
    ],
)
def test_a_source_may_be_a_registry_or_a_bucket(text: str, scheme: str) -> None:
    assert SourceUrl(text) == text
    assert SourceUrl(text).scheme == scheme
    assert SourceUrl(text).is_artifact == (scheme in ("oci", "s3"))


@pytest.mark.parametrize("text", ["oci://ghcr.io/plant", "s3://plant/x"])
def test_what_is_written_to_is_never_a_registry_or_a_bucket(text: str) -> None:
    with pytest.raises(InvalidValue, match="must begin with"):
        RepoUrl(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("oci://ghcr.io", "oci://host/name"),
        ("oci://ghcr.io/Plant", "oci://host/name"),
        ("oci://ghcr.io/plant:v1", "oci://host/name"),
        ("oci://ghcr.io/../x", "oci://host/name"),
        ("oci:///plant", "names no host"),
        ("oci://me:s3cret@ghcr.io/plant", "'@'"),
        ("oci://ghcr.io/plant@sha256:00", "'@'"),
        ("oci://ghcr.io:0/plant", "port 0"),
        ("oci://ghcr.io:many/plant", "cannot be read"),
        ("oci://2852039166/plant", "link-local"),
        ("oci://ghcr.io/plant?insecure=true", "query"),
        ("oci://ghcr.io/plant?plainHttp=", "query"),
        ("oci://ghcr.io/plant?&", "cannot be read"),
        ("oci://ghcr.io/plant#x", "fragment"),
        ("oci://ghcr.io/pl ant", "space"),
        ("oci://ghcr.io/" + "a" * 255, "oci://host/name"),
        ("oci://ghcr.io/" + "a" * 2048, "longer"),
        ("s3://Plant/x", "bucket of"),
        ("s3://plant/a/../b", "prefix"),
        ("s3://plant_1/x", "bucket of"),
        ("s3://plant/./b", "prefix"),
        ("s3://plant//b", "prefix"),
        ("s3://plant/a\\b", "prefix"),
        ("s3://plant/a\u202eb", "space or control"),
        ("s3://plant/x?key=s3cret", "query"),
        ("s3://plant/x?endpoint=minio:9000", "endpoint"),
        ("s3://plant/x?endpoint=file:///etc/passwd", "neither http:// nor https://"),
        ("s3://plant/x?endpoint=ssh://host/x", "neither http:// nor https://"),
        ("s3://plant/x?endpoint=http://169.254.169.254/", "link-local"),
        ("s3://plant/x?endpoint=https://a&endpoint=https://b", "twice"),
        ("s3://plant/x?region=eu_1", "region"),
    ],
)
def test_an_address_of_an_artifact_that_is_wrong_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(InvalidValue, match="artifact address") as refused:
        SourceUrl(text)
    assert why in refused.value.message
    assert "s3cret" not in refused.value.message


def test_a_digest_is_a_ref_and_nothing_like_it_is() -> None:
    assert GitRef("sha256:" + "0" * 64)
    for text in (
        "sha256:0",
        "sha256:" + "0" * 65,
        "sha256:" + "G" * 64,
        "sha512:" + "0" * 64,
        "x:sha256:" + "0" * 64,
    ):
        with pytest.raises(InvalidValue):
            GitRef(text)
