"""Describes a failed connection as text, for the API server, gateways, registries and all other services.

aiohttp's exceptions contain the request's headers and the proxy's address, so their own texts are never
shown: the class of the exception selects a sentence, and only the texts of the operating system or OpenSSL
are repeated. Import it only where aiohttp is used anyway.
"""

from __future__ import annotations

import os
import ssl

import aiohttp

from stoker.domain.text import one_line

NETWORK_ERRORS = (aiohttp.ClientError, OSError, TimeoutError)
"""All exceptions of a request besides our own; TLS errors are OSErrors."""

_MAX_LENGTH = 200
_FIXED: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.ClientConnectorDNSError, "cannot be reached: its name is not known"),
    (aiohttp.ServerDisconnectedError, "closed the connection without an answer"),
    (aiohttp.ClientPayloadError, "broke off in the middle of its answer"),
    (aiohttp.ClientResponseError, "does not answer in HTTP; if the port speaks TLS, write https://"),
    (ConnectionResetError, "closed the connection without an answer"),
)


def network_error_text(error: Exception, seconds: float) -> str:
    """Return the end of a sentence that begins with the server's address; `seconds` is the time limit."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"shows a certificate that is not trusted: {_tls_error_text(error.certificate_error)}"
        case aiohttp.ClientConnectorSSLError():
            return f"does not speak TLS: {_tls_error_text(error.os_error)}"
        case aiohttp.ClientProxyConnectionError():
            return f"cannot be reached: the proxy does not answer: {_os_error_text(error.os_error)}"
        case aiohttp.ClientHttpProxyError():
            return f"cannot be reached: the proxy answered {error.status}"
        case aiohttp.ConnectionTimeoutError():
            return "cannot be reached: no connection in time"
        case ssl.SSLError():
            return f"does not speak TLS: {_tls_error_text(error)}"
        case TimeoutError():
            return f"did not answer within {seconds:g} s"
    for kind, sentence in _FIXED:
        if isinstance(error, kind):
            return sentence
    cause = _os_error_text(error) if isinstance(error, OSError) else type(error).__name__
    return f"cannot be reached: {cause}"


def _os_error_text(error: OSError) -> str:
    """Return the system's text for the error number.

    asyncio puts the address into `strerror`, which the sentence already has.
    """
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return one_line(error.strerror or type(error).__name__, _MAX_LENGTH)


def _tls_error_text(error: Exception) -> str:
    words = getattr(error, "verify_message", "") or getattr(error, "reason", "") or type(error).__name__
    return one_line(str(words), _MAX_LENGTH)
