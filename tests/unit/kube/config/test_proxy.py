"""The proxy of the environment for a server."""

from __future__ import annotations

import pytest

from stoker.domain.errors import Misconfigured
from stoker.kube.config import proxy as proxy_settings

PROXY = {"HTTPS_PROXY": "http://proxy:3128"}


@pytest.mark.parametrize(
    ("server", "no_proxy"),
    [
        ("https://host.example.com:6443", ""),
        ("https://host.example.com:6443", "example.org, other.example.com"),
        ("https://host.example.com:6443", "host.example.com:443"),
        ("https://myexample.com", "example.com"),
        ("https://10.1.2.3:6443", "10.2.0.0/16"),
        ("https://10.1.2.3:6443", "1.2.3"),
        ("https://10.1.2.3:6443", "nonsense/99"),
    ],
)
def test_a_server_is_asked_through_the_proxy(server: str, no_proxy: str) -> None:
    proxy = proxy_settings.proxy_from_environment(server, PROXY | {"NO_PROXY": no_proxy})
    assert proxy is not None
    assert proxy.reveal() == "http://proxy:3128"


@pytest.mark.parametrize(
    ("server", "no_proxy"),
    [
        ("https://localhost:6443", ""),
        ("https://127.0.0.1:6443", ""),
        ("https://[::1]:6443", ""),
        ("https://host.example.com:6443", "*"),
        ("https://host.example.com:6443", "example.com"),
        ("https://host.example.com:6443", " , .example.com"),
        ("https://host.example.com:6443", "*.example.com"),
        ("https://host.example.com:6443", "HOST.example.com:6443"),
        ("https://host.example.com", "host.example.com:443"),
        ("https://10.1.2.3:6443", "10.0.0.0/8"),
        ("https://10.1.2.3:6443", "10.1.2.3"),
        ("https://[fd00::1]:6443", "fd00::/8"),
        ("https://[fd00::1]:6443", "[fd00::1]"),
        ("http://host.example.com", ""),
    ],
)
def test_a_server_is_asked_directly(server: str, no_proxy: str) -> None:
    assert proxy_settings.proxy_from_environment(server, PROXY | {"no_proxy": no_proxy}) is None


def test_the_scheme_decides_which_variable_counts() -> None:
    proxy = proxy_settings.proxy_from_environment(
        "http://host", {"http_proxy": "plain:80", "https_proxy": "secure:80"}
    )
    assert proxy is not None
    assert proxy.reveal() == "http://plain:80"


@pytest.mark.parametrize(
    "address", ["socks5://me:canary@proxy", "http://", "http://proxy:port", "http://[::1"]
)
def test_a_proxy_that_cannot_be_used_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        proxy_settings.proxy_from_environment("https://host", {"HTTPS_PROXY": address})
    assert refused.value.message.startswith("the variable HTTPS_PROXY names a proxy that is not of the form")
    assert "canary" not in refused.value.message
