"""Opens a bucket with the obstore library, from an address and a login and nothing else.

By default the library reads missing settings from environment variables: keys, a session, another endpoint.
Those belong to the cloud identity of this process, which must never be used for an address that a user
wrote. So every setting that a variable could provide is set explicitly here. Without a login, requests are
anonymous.

The library makes its own connections, which limits the egress check: the endpoint is resolved and checked
before each listing, and then the library resolves it again. It does not follow a redirect to another host.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from stoker.artifacts.errors import ArtifactUnreachable
from stoker.domain.errors import Misconfigured, StokerError
from stoker.engine.artifact_source import ArtifactCredentials
from stoker.http_client import egress
from stoker.http_client.errors import EgressRefused, ServiceUnreachable
from stoker.http_client.proxy import proxy_for
from stoker.http_client.tls import extract_certificates

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore

DEFAULT_REGION = "us-east-1"


def open_store(
    bucket: str,
    prefix: str,
    endpoint: str,
    region: str,
    title: str,
    credentials: ArtifactCredentials,
    retries: int,
) -> ObjectStore:
    """Return the store without any network access."""
    endpoint = endpoint_for(endpoint, region)
    keys: dict[str, Any] = {
        "region": region,
        "endpoint": endpoint,
        "aws_endpoint_url_s3": endpoint,  # has precedence over `endpoint`
        "virtual_hosted_style_request": False,
        "s3_express": False,
        "skip_signature": credentials.password is None,
    }
    try:
        if credentials.password is not None:
            login = {
                "access_key_id": credentials.username,
                "secret_access_key": credentials.password.reveal(),
                "token": None,
                "expires_at": None,
            }
            keys["credential_provider"] = lambda: login
        made: ObjectStore = import_obstore().S3Store(
            bucket,
            prefix=prefix or None,
            client_options=_client(endpoint, credentials),
            retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=60)},
            **keys,
        )
    except StokerError:
        raise
    except Exception:  # its text may contain the library's input, including a key
        raise Misconfigured(f"{title} cannot be used with this address and login") from None
    return made


def endpoint_for(endpoint: str, region: str) -> str:
    return endpoint or f"https://s3.{region}.amazonaws.com"


async def check_egress(endpoint: str, region: str, credentials: ArtifactCredentials, title: str) -> None:
    """Raise if the egress policy forbids the endpoint, or the proxy that the resource names for it."""
    endpoint = endpoint_for(endpoint, region)
    proxy = proxy_for(endpoint, credentials.proxy)
    try:
        if proxy is None:
            egress.demand_one_place(endpoint)
            await egress.check_egress(endpoint)
        else:  # the proxy resolves the host name itself
            egress.check_host_name(egress.host_and_port(endpoint)[0])
        if proxy is not None and credentials.proxy:
            await egress.check_egress(proxy)
    except ServiceUnreachable as error:
        reason = error.reason if isinstance(error, EgressRefused) else None
        raise ArtifactUnreachable(f"{title} cannot be read: {error.message}", reason=reason) from None


def import_obstore() -> Any:
    try:
        import obstore.store  # noqa: PLC0415 - comes with the extra `s3`
    except ImportError:
        raise Misconfigured(
            "a bucket source needs the package obstore; install stoker with the extra 's3'"
        ) from None
    return obstore.store


def _client(endpoint: str, credentials: ArtifactCredentials) -> ClientConfig:
    options: ClientConfig = {
        "allow_http": endpoint.startswith("http://"),  # only if the configured address is http
        "connect_timeout": timedelta(seconds=10),
        "timeout": timedelta(seconds=120),
    }
    if credentials.ca is not None:
        options["root_certificate"] = extract_certificates(credentials.ca)
    proxy = proxy_for(endpoint, credentials.proxy)
    if proxy is not None:
        options["proxy_url"] = proxy
    else:
        options |= cast("ClientConfig", egress.single_host_options(endpoint))
    return options
