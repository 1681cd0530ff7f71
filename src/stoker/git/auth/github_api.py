"""Sends a request to GitHub's API and maps error responses to messages.

`stoker.git.auth.github_app` uses it to get tokens. The JWT of the app is sent to the API of the
repository's own host only. An error message contains the status and never the response body, because the
author of the repository address chooses the host that answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import urlsplit

from stoker.domain.errors import StokerError
from stoker.domain.secrets import Secret
from stoker.git.errors import SourceAuthFailed, SourceUnreachable
from stoker.http_client import ServiceRequest, ServiceResponse, ServiceUnreachable, send_request

TIMEOUT = 30.0


async def post_json(
    address: str, bearer: Secret, content: Mapping[str, object], ca: bytes | None, proxy: str
) -> ServiceResponse:
    """Send a POST request with a JSON body."""
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {bearer.reveal()}",
        "Content-Type": "application/json",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    body = json.dumps(content).encode()
    try:
        return await send_request(
            ServiceRequest(address, "POST", headers, body, timeout=TIMEOUT, ca=ca, proxy=proxy)
        )
    except ServiceUnreachable as error:
        raise SourceUnreachable(f"the API of {error.message}") from None


def token_error(answer: ServiceResponse, who: str, api: str) -> StokerError:
    """Return the error for a response without a token."""
    host = urlsplit(api).hostname
    status = f"(status {answer.status})"
    if answer.status in (403, 429) and answer.wait is not None:
        return SourceUnreachable(f"{who} has asked {host} too often {status}", after=answer.wait)
    if answer.status == 401:
        return SourceAuthFailed(f"{who}: {host} refused the app id or its private key {status}")
    if answer.status == 404:
        return SourceAuthFailed(
            f"{who}: the app has no such installation, or {host} has no such API {status}"
        )
    if answer.status in (403, 422):
        return SourceAuthFailed(
            f"{who} gets no token: the repository is not part of the installation, the app lacks a "
            f"permission that is asked for, or the installation is suspended {status}"
        )
    if 300 <= answer.status < 400:
        return SourceUnreachable(
            f"{who}: the API of {host} answers with a redirect {status}, which is not followed"
        )
    return SourceUnreachable(f"{who}: the API of {host} answered with status {answer.status}")
