"""Which proxy a connection uses: the configured one, that of the environment, or none."""

from __future__ import annotations

import pytest

from stoker.domain.errors import InvalidValue
from stoker.http_client.proxy import chosen_proxy, inherited_proxies, no_proxy_variables, proxy_for

PROXY = "http://proxy.test:3128"
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    ("variables", "address", "proxy"),
    [
        ({"HTTPS_PROXY": PROXY}, "https://git.test", PROXY),
        ({"https_proxy": "proxy.test:3128"}, "https://git.test", PROXY),
        ({"https_proxy": PROXY, "HTTPS_PROXY": "http://other.test"}, "https://git.test", PROXY),
        ({"https_proxy": "", "HTTPS_PROXY": PROXY}, "https://git.test", PROXY),
        ({"HTTPS_PROXY": PROXY}, "http://git.test", None),
        ({"ALL_PROXY": PROXY}, "https://git.test", PROXY),
        ({"ALL_PROXY": "http://other.test", "HTTP_PROXY": PROXY}, "http://git.test", PROXY),
        ({"HTTPS_PROXY": PROXY, "no_proxy": "a.test git.test"}, "https://git.test", None),
        ({"HTTPS_PROXY": PROXY, "no_proxy": "", "NO_PROXY": "a.test,.test"}, "https://git.test", None),
        ({"HTTPS_PROXY": PROXY, "NO_PROXY": "it.test"}, "https://git.test", PROXY),
        ({"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, "https://10.1.2.3", None),
        ({"HTTPS_PROXY": PROXY, "NO_PROXY": "git.test"}, "https://git.test.", None),
        ({"HTTPS_PROXY": PROXY, "NO_PROXY": ". , :443"}, "https://git.test", PROXY),
        ({}, "https://git.test", None),
    ],
)
def test_the_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], address: str, proxy: str | None
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert chosen_proxy(address) == proxy


def test_a_configured_proxy_has_precedence_over_the_environment_except_over_no_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://other.test")
    monkeypatch.setenv("NO_PROXY", "git.test")
    assert chosen_proxy("https://forge.test", PROXY) == PROXY
    assert chosen_proxy("https://git.test", PROXY) is None


@pytest.mark.parametrize("proxy", ["ftp://me:canary@proxy", "http://", "http://proxy:0", "http://[::1"])
def test_a_configured_proxy_that_cannot_be_used_is_refused_without_its_password(proxy: str) -> None:
    with pytest.raises(InvalidValue, match=r"^git\.proxy is not of the form") as refused:
        chosen_proxy("https://git.test", proxy)
    assert "canary" not in refused.value.message


def test_a_socks_proxy_is_for_git_alone() -> None:
    assert chosen_proxy("https://git.test", "socks5h://proxy.test") == "socks5h://proxy.test"
    with pytest.raises(InvalidValue, match=r"^git\.test cannot be reached through a SOCKS proxy"):
        proxy_for("https://git.test", "socks5h://proxy.test")


def test_git_gets_the_variables_that_it_and_curl_know() -> None:
    environ = {"HTTP_PROXY": PROXY, "https_proxy": "", "NO_PROXY": "a.test", "FTP_PROXY": PROXY}
    assert inherited_proxies(environ) == {"HTTP_PROXY": PROXY, "http_proxy": PROXY, "NO_PROXY": "a.test"}
    assert no_proxy_variables(environ) == {"NO_PROXY": "a.test"}
