"""Failed connections, described as text."""

from __future__ import annotations

import ssl

import aiohttp
import pytest

from stoker.http_client.network_errors import network_error_text


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (aiohttp.ConnectionTimeoutError(), "cannot be reached: no connection in time"),
        (aiohttp.SocketTimeoutError(), "did not answer within 60 s"),
        (TimeoutError(), "did not answer within 60 s"),
        (ConnectionResetError(104, "Connection reset by peer"), "closed the connection without an answer"),
        (OSError(24, "Too many open files"), "cannot be reached: Too many open files"),
        (ssl.SSLError(1, "[SSL] bad record mac"), "does not speak TLS: SSLError"),
        (OSError(), "cannot be reached: OSError"),
        (aiohttp.ClientError("canary"), "cannot be reached: ClientError"),
    ],
)
def test_an_error_of_the_connection_is_described_without_its_own_text(error: Exception, said: str) -> None:
    assert network_error_text(error, 60.0) == said
