"""A bucket as a snapshot storage: S3-compatible, or Google Cloud Storage.

Objects are stored below `{keyPrefix}/{gateway}/`. Credentials come from a mounted Secret or, if none is
configured, from the pod's own identity (the cloud's environment variables). The library for both protocols,
obstore, comes with the extra `s3`. Its messages contain addresses and responses, so only a short reason is
passed on.

An endpoint that the resource names is checked before each use (`stoker.http_client.egress`); the library
then resolves it again. With a mounted Secret no redirect to another host is followed. With the pod's own
identity other hosts must be reachable, because the library requests the identity there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from stoker.domain.errors import Misconfigured, StokerError
from stoker.domain.intent.policies import SnapshotBucketPolicy
from stoker.domain.paths import RelPath
from stoker.domain.secrets import Secret
from stoker.http_client import EgressRefused, egress
from stoker.http_client.proxy import proxy_for
from stoker.snapshots.ids import safe_name
from stoker.snapshots.storage import MAX_OBJECTS, ObjectMissing, StoredObject
from stoker.snapshots.types import storage_failed

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

ACCESS_KEY, SECRET_KEY, SESSION_TOKEN = "accessKeyId", "secretAccessKey", "sessionToken"
SERVICE_ACCOUNT = "serviceAccount.json"
DEFAULT_REGION = "us-east-1"
LEFTOVER_AGE_SECONDS = 3600.0
"""A bucket has no locks: a younger unreferenced object may belong to a snapshot in progress."""
PART = 8 << 20
MAX_CONCURRENT_PARTS = 2

_ENDPOINT = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+(/[^?#@\s]*)?")
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z]{1,64})</Code>")


def s3_storage(
    bucket: SnapshotBucketPolicy,
    gateway: str,
    credentials: Mapping[str, Secret] | None = None,
    *,
    authorities: bytes = b"",
    retries: int = 3,
) -> BucketStorage:
    """Open a bucket of S3, or of a compatible server at `endpoint`; `authorities` are additional CAs."""
    store = _import_obstore().S3Store
    region = bucket.region or DEFAULT_REGION
    endpoint = bucket.endpoint
    keys: dict[str, Any] = {"region": region}
    if credentials is not None:  # then the pod's own variables are not used
        session = _credential(credentials, SESSION_TOKEN) if credentials.get(SESSION_TOKEN) else None
        login = {
            "access_key_id": _credential(credentials, ACCESS_KEY),
            "secret_access_key": _credential(credentials, SECRET_KEY),
            "token": session,
            "expires_at": None,
        }
        keys |= {"credential_provider": lambda: login, "skip_signature": False}
        endpoint = endpoint or f"https://s3.{region}.amazonaws.com"
    if endpoint:
        keys |= {
            "endpoint": endpoint,
            "aws_endpoint_url_s3": endpoint,
        }  # a variable for the second has precedence
    only = endpoint if credentials is not None else ""
    return _open_bucket(
        "s3", store, bucket, gateway, keys, _client_config(bucket.endpoint, authorities, only), retries
    )


def gcs_storage(
    bucket: SnapshotBucketPolicy,
    gateway: str,
    credentials: Mapping[str, Secret] | None = None,
    *,
    authorities: bytes = b"",
    retries: int = 3,
) -> BucketStorage:
    """Open a bucket of Google Cloud Storage, or of a compatible server at `endpoint`."""
    store = _import_obstore().GCSStore
    keys: dict[str, str] = {}
    if credentials is not None:
        keys["service_account_key"] = _credential(credentials, SERVICE_ACCOUNT, one_line=False)
    if bucket.endpoint:
        keys["base_url"] = bucket.endpoint
    return _open_bucket(
        "gs", store, bucket, gateway, keys, _client_config(bucket.endpoint, authorities), retries
    )


class BucketStorage:
    """The objects of one gateway below one prefix of a bucket."""

    leftovers_rest = LEFTOVER_AGE_SECONDS

    def __init__(self, store: ObjectStore, where: str, endpoint: str = "") -> None:
        self.where = where
        self._store = store
        self._endpoint = endpoint

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        yield

    def listed(self) -> list[StoredObject]:
        import obstore  # noqa: PLC0415 - only installed where buckets are used

        found: list[StoredObject] = []
        with self._told("listed"):
            for some in obstore.list(self._store):
                found += [
                    StoredObject(one["path"], one["size"], one["last_modified"].timestamp()) for one in some
                ]
                if len(found) > MAX_OBJECTS:
                    raise storage_failed(f"there are more than {MAX_OBJECTS} objects in {self.where}")
        return found

    def put(self, name: str, chunks: Iterable[bytes]) -> None:
        import obstore  # noqa: PLC0415

        own: list[BaseException] = []
        with self._told("written", own):
            parts = _record_own_errors(_regroup_chunks(chunks), own)
            first = next(parts, b"")
            if len(first) < PART:  # there is no further part
                obstore.put(self._store, name, first, use_multipart=False)
            else:
                whole = chain((first,), parts)
                obstore.put(
                    self._store,
                    name,
                    whole,
                    use_multipart=True,
                    chunk_size=PART,
                    max_concurrency=MAX_CONCURRENT_PARTS,
                )

    def get(self, name: str, start: int, length: int) -> bytes:
        import obstore  # noqa: PLC0415

        with self._told("read"):
            try:
                return bytes(obstore.get_range(self._store, name, start=start, length=length))
            except FileNotFoundError as error:
                code = _CODE.search(str(error))
                if code is None or code[1] == "NoSuchKey":
                    raise ObjectMissing(name) from None
                raise  # the bucket itself or the account does not exist
            except Exception as error:
                status = _STATUS.search(str(error))
                if status is not None and status[1] == "416":
                    return b""  # `start` is at or after the end of the object
                raise

    def delete(self, name: str) -> None:
        import obstore  # noqa: PLC0415

        with self._told("deleted"):
            try:
                obstore.delete(self._store, name)
            except FileNotFoundError:
                return

    @contextmanager
    def _told(self, what: str, own: list[BaseException] | None = None) -> Iterator[None]:
        """Map the library's errors to one message; errors of our own chunk iterator pass unchanged."""
        try:
            if self._endpoint:
                egress.check_egress_blocking(self._endpoint)
            yield
        except EgressRefused as error:
            raise storage_failed(f"the snapshots in {self.where} cannot be {what}: {error.message}") from None
        except (StokerError, ObjectMissing):
            raise
        except Exception as error:
            if own:
                raise own[0] from None
            raise storage_failed(
                f"the snapshots in {self.where} cannot be {what}: {_error_reason(error)}"
            ) from None


def _error_reason(error: Exception) -> str:
    text = str(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    if status is not None:
        return f"it answers {status[1]}" + (f" {code[1]}" if code is not None else "")
    if isinstance(error, PermissionError) or type(error).__name__ in (
        "PermissionDeniedError",
        "UnauthenticatedError",
    ):
        return "it does not let us in"
    return "it does not answer" if "error sending request" in text else f"{type(error).__name__}"


def _regroup_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield parts of the size for a multipart upload; the last may be smaller."""
    waiting = bytearray()
    for chunk in chunks:
        waiting += chunk
        while len(waiting) >= PART:
            yield bytes(waiting[:PART])
            del waiting[:PART]
    if waiting:
        yield bytes(waiting)


def _record_own_errors(parts: Iterator[bytes], own: list[BaseException]) -> Iterator[bytes]:
    """Record errors that our own iterator raises, because the library may wrap them."""
    try:
        yield from parts
    except Exception as error:
        own.append(error)
        raise


def _open_bucket(
    scheme: str,
    store: Any,
    bucket: SnapshotBucketPolicy,
    gateway: str,
    keys: Mapping[str, Any],
    options: ClientConfig,
    retries: int,
) -> BucketStorage:
    """Open a bucket with the library's class for the protocol and its specific settings."""
    if not bucket.name:
        raise Misconfigured("snapshots go to a bucket, and none is named")
    if bucket.endpoint and not _ENDPOINT.fullmatch(bucket.endpoint):
        raise Misconfigured(f"the endpoint of bucket {bucket.name!r} is no http or https address")
    prefix = RelPath.clean(bucket.key_prefix).joined(safe_name(gateway))
    where = f"{scheme}://{bucket.name}/{prefix}"
    try:
        opened: ObjectStore = store(
            bucket.name,
            prefix=prefix,
            client_options=options,
            retry_config=_retry_config(retries),
            **keys,
        )
    except Exception:  # its text may contain the library's input, including a key
        raise Misconfigured(f"{where} cannot be used with these settings and credentials") from None
    return BucketStorage(opened, where, bucket.endpoint)


def _import_obstore() -> Any:
    try:
        import obstore.store  # noqa: PLC0415 - comes with the extra `s3`
    except ImportError:
        raise Misconfigured(
            "snapshots in a bucket need the package obstore; install stoker with the extra 's3'"
        ) from None
    return obstore.store


def _credential(credentials: Mapping[str, Secret], name: str, *, one_line: bool = True) -> str:
    secret = credentials.get(name)
    if not secret:
        raise Misconfigured(f"the Secret with the credentials of the bucket has no {name}")
    if one_line and not secret.is_one_line:
        raise Misconfigured(f"{name} of the bucket's credentials is not one line of text")
    try:
        return secret.reveal()
    except UnicodeDecodeError:
        raise Misconfigured(f"{name} of the bucket's credentials is no text") from None


def _client_config(endpoint: str, authorities: bytes, only: str = "") -> ClientConfig:
    """Return the HTTP options; with `only`, connections are limited to the host of that address."""
    options: ClientConfig = {
        "allow_http": endpoint.startswith("http://"),  # only if the configured address is http
        "connect_timeout": timedelta(seconds=10),
        "timeout": timedelta(seconds=120),
    }
    if authorities:
        options["root_certificate"] = authorities
    if only and proxy_for(only) is None:
        options |= cast("ClientConfig", egress.single_host_options(only))
    return options


def _retry_config(retries: int) -> RetryConfig:
    return {"max_retries": retries, "retry_timeout": timedelta(seconds=60)}
