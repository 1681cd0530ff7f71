"""An address of a gateway is checked once, where it enters."""

from __future__ import annotations

import pytest

from stoker.domain.errors import InvalidValue
from stoker.ignition.client.address import GatewayAddress


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("localhost:8088", "http://localhost:8088"),
        ("localhost:8043", "https://localhost:8043"),
        ("gw.plant.example:443", "https://gw.plant.example:443"),
        ("gw.plant.example", "http://gw.plant.example:8088"),
        ("https://gw.plant.example", "https://gw.plant.example:8043"),
        ("http://gw.plant.example:8043/", "http://gw.plant.example:8043"),
        ("[::1]:8088", "http://[::1]:8088"),
        ("https://[fd00::7]", "https://[fd00::7]:8043"),
    ],
)
def test_what_people_write_becomes_an_address(text: str, url: str) -> None:
    assert GatewayAddress.parse(text).url == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":8088",
        "host:",
        "host:0",
        f"{'a' * 64}.plant.example:8088",
        "host:99999",
        "host:port",
        "ftp://host",
        "http://host/data",
        "http://host?x",
        "http://host#x",
        "http://a b:1",
        "-host:1",
        "host\n:1",
        "http://ho\0st",
        "[::1",
        "ünïcode:80",
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="gateway address"):
        GatewayAddress.parse(text)


@pytest.mark.parametrize("scheme", ["https://", "", "ftp://"])
def test_a_password_in_an_address_is_refused_and_not_repeated(scheme: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        GatewayAddress.parse(f"{scheme}admin:hunter2@gw:8043")
    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("[::1]", True),
        ("LOCALHOST", True),
        ("localhost.", True),
        ("10.0.0.1", False),
        ("localhost.example.net", False),
        ("127.0.0.1.example.net", False),
    ],
)
def test_loopback_is_this_machine_and_nothing_that_looks_like_it(host: str, loopback: bool) -> None:
    assert GatewayAddress.parse(f"{host}:8043").loopback is loopback
