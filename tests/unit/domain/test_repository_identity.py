"""One repository has many addresses."""

from __future__ import annotations

import pytest

from stoker.domain.repository_identity import may_be_same, normalize_repository


@pytest.mark.parametrize(
    "url",
    [
        "https://git.example.com/a/b.git",
        "https://git.example.com/a/b",
        "https://GIT.example.com:443/a/b/",
        "http://git.example.com/a/b.git/",
        "https://git.example.com./a/b",
        "https://git.example.com//a/./x/../b",
        "https://git.example.com/%61/b%2Egit",
        "ssh://git@git.example.com/a/b.git",
        "ssh://git@git.example.com:22/a/b",
        "git@git.example.com:a/b.git",
        "git@git.example.com:/a/b",
    ],
)
def test_one_repository_has_many_spellings(url: str) -> None:
    assert normalize_repository(url) == "git.example.com/a/b"


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"])
def test_an_address_has_many_spellings(host: str) -> None:
    assert normalize_repository(f"https://{host}/a/b") == "127.0.0.1/a/b"


@pytest.mark.parametrize(
    "url", ["https://git.example.com/a/c", "https://git.example.com:8443/a/b", "https://other.com/a/b"]
)
def test_other_repositories_are_distinguished(url: str) -> None:
    assert normalize_repository(url) != "git.example.com/a/b"


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("https://git.example.com:8443/a/b", True),
        ("ssh://git@git.example.com:2222/A/B.git", True),
        ("https://git.example.com/a/b.GIT", True),
        ("ssh://git@git.example.com/~/a/b", True),
        ("git@git.example.com:~/a/b.git", True),
        ("https://[2001:db8::1]:8443/a/b", False),
        ("https://git.example.com/a/c", False),
        ("https://other.com/a/b", False),
    ],
)
def test_case_and_port_do_not_keep_two_destinations_apart(url: str, same: bool) -> None:
    assert may_be_same(normalize_repository("https://git.example.com/a/b"), normalize_repository(url)) is same


def test_ipv6_hosts_are_compared_without_their_port() -> None:
    one, other = (
        normalize_repository("https://[2001:db8::1]:8443/a/b"),
        normalize_repository("https://[2001:DB8:0::1]/a/b"),
    )
    assert may_be_same(one, other)
    assert not may_be_same(one, normalize_repository("https://[2001:db8::2]/a/b"))
