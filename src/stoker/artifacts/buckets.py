"""Objects of an S3-compatible bucket below one prefix, as one artifact.

A bucket has no commits, so a listing stands for one: its id is a digest over the name,
size and ETag of every object, and of where they lie. What is pulled is exactly that
listing: each object is asked for with the ETag that it had, and the listing is looked at
again in the end. A bucket that changes meanwhile is no artifact, and is asked for again.

Without a login requests are anonymous: the identity that a cloud gives to this process
is never used for an address that somebody else wrote.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from stoker.artifacts.bounds import Limits, NamedFile, bounded
from stoker.artifacts.errors import Damaged, NotFound, NotLetIn, Refused, TooLarge, Unreachable, shown
from stoker.calling.proxies import proxy_for
from stoker.calling.trust import certificates
from stoker.domain.errors import Misconfigured, StokerError
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.engine.artifacts import ArtifactFile, Credentials, CredentialsReader

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore

DEFAULT_REGION = "us-east-1"
ITSELF = "HEAD"
"""The ref that means the prefix of the address, without anything below it."""
LOOKS = 3
AT_ONCE = 8
SMALL = 1 << 20
"""Objects up to this size are asked for ahead, because each costs a way there and back."""

_ID = re.compile(r"[0-9a-f]{64}")
_STATUS = re.compile(r"status code: (\d{3})|status: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z]{1,64})</Code>")
_USUAL = Limits()


class Entry(NamedTuple):
    """One object, by its name below the prefix."""

    name: str
    size: int
    etag: str
    changed: int


class Bucket:
    """One bucket, or a prefix in one."""

    def __init__(
        self, url: RepoUrl, credentials: CredentialsReader, limits: Limits = _USUAL, retries: int = 3
    ) -> None:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query))
        self._bucket = parts.netloc
        self._prefix = parts.path.strip("/")
        self._endpoint = query.get("endpoint", "")
        self._region = query.get("region", DEFAULT_REGION)
        self._credentials = credentials
        self._limits = limits
        self._retries = retries
        _library()

    async def resolve(self, ref: GitRef) -> CommitId:
        if _ID.fullmatch(ref):
            return CommitId(ref)
        listing = await self._listing(ref)
        return await asyncio.to_thread(lambda: listing.id(listing.settled()))

    async def pull(self, artifact: CommitId, ref: GitRef, folder: Path) -> PulledObjects:
        if _ID.fullmatch(ref):
            raise NotFound(
                f"{artifact} is not in the mirror any more, and bucket s3://{self._bucket}/{self._prefix} "
                "keeps no history; name a prefix below it as the ref"
            )
        listing = await self._listing(ref)
        entries = await asyncio.to_thread(listing.entries)
        if listing.id(entries) != artifact:
            raise Damaged(f"{listing.title} has changed since it was looked at")
        return PulledObjects(artifact, listing, entries, self._limits)

    async def _listing(self, ref: GitRef) -> _Listing:
        below = "" if ref == ITSELF else str(ref)
        prefix = "/".join(part for part in (self._prefix, below) if part)
        title = f"bucket s3://{self._bucket}/{prefix}"
        store = self._store(prefix, title, await self._credentials())
        return _Listing(store, title, self._limits, f"{self._endpoint}\0{self._bucket}\0{prefix}")

    def _store(self, prefix: str, title: str, credentials: Credentials) -> ObjectStore:
        keys: dict[str, Any] = {"region": self._region}
        if credentials.password is not None:
            keys["access_key_id"] = credentials.username
            keys["secret_access_key"] = credentials.password.reveal()
        else:
            keys["skip_signature"] = True
        if self._endpoint:
            keys["endpoint"] = self._endpoint
        try:
            made: ObjectStore = _library().S3Store(
                self._bucket,
                prefix=prefix or None,
                client_options=_client(self._endpoint, credentials),
                retry_config={"max_retries": self._retries, "retry_timeout": timedelta(seconds=60)},
                **keys,
            )
        except StokerError:
            raise
        except Exception:  # whose words may hold what the library was given, a key among it
            raise Misconfigured(f"{title} cannot be used with this address and login") from None
        return made


class _Listing:
    """What lies below a prefix, asked anew each time; for a worker thread."""

    def __init__(self, store: ObjectStore, title: str, limits: Limits, origin: str) -> None:
        self.store = store
        self.title = title
        self._limits = limits
        self._origin = origin

    def settled(self) -> list[Entry]:
        """The same twice in a row: a list of many pages is not made in one moment."""
        before = self.entries()
        for _ in range(LOOKS):
            now = self.entries()
            if now == before:
                return now
            before = now
        raise Damaged(f"{self.title} changes faster than it can be listed")

    def entries(self) -> list[Entry]:
        import obstore  # noqa: PLC0415 - only who has a bucket has the library

        found: list[Entry] = []
        with told(self.title):
            for some in obstore.list(self.store, chunk_size=1000):
                found += [_entry(one, self.title) for one in some if not one["path"].endswith("/")]
                if len(found) > self._limits.files:
                    raise TooLarge(f"{self.title} holds more than {self._limits.files} objects")
        if not found:
            raise NotFound(f"there is nothing in {self.title}")
        if sum(one.size for one in found) > self._limits.packed:
            raise TooLarge(f"{self.title} is larger than {self._limits.packed} bytes")
        return sorted(found)

    def id(self, entries: list[Entry]) -> CommitId:
        digest = hashlib.sha256(self._origin.encode())
        for one in entries:
            digest.update(f"\0\0{one.name}\0{one.size}\0{one.etag}".encode())
        return CommitId(digest.hexdigest())


class PulledObjects:
    """A listing whose objects are fetched as they are taken."""

    def __init__(self, artifact: CommitId, listing: _Listing, entries: list[Entry], limits: Limits) -> None:
        self.title = listing.title
        self.made_at = max(one.changed for one in entries)
        self._id = artifact
        self._listing = listing
        self._entries = entries
        self._limits = limits

    def files(self) -> Iterator[ArtifactFile]:
        yield from bounded(self._named(), self.title, self._limits)
        if self._listing.id(self._listing.entries()) != self._id:
            raise Damaged(f"{self.title} changed while it was read")

    def _named(self) -> Iterator[NamedFile]:
        waiting: deque[tuple[Entry, Future[bytes] | None]] = deque()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for one in self._entries:
                small = one.size <= SMALL
                waiting.append((one, pool.submit(self._whole, one) if small else None))
                if len(waiting) >= AT_ONCE:
                    yield self._file(*waiting.popleft())
            while waiting:
                yield self._file(*waiting.popleft())

    def _file(self, one: Entry, ahead: Future[bytes] | None) -> NamedFile:
        chunks = self._chunks(one) if ahead is None else iter((ahead.result(),))
        return NamedFile(one.name, one.size, chunks)

    def _whole(self, one: Entry) -> bytes:
        return b"".join(self._chunks(one))

    def _chunks(self, one: Entry) -> Iterator[bytes]:
        import obstore  # noqa: PLC0415

        left = one.size
        with told(self.title, f"object {shown(one.name)} of "):
            answer = obstore.get(self._listing.store, one.name, options={"if_match": one.etag})
            if answer.meta["e_tag"] != one.etag or answer.meta["size"] != one.size:
                raise Damaged(f"{self.title} changed while it was read")
            for chunk in answer.stream(min_chunk_size=1 << 20) if one.size else ():
                left -= len(chunk)
                if left < 0:
                    raise Damaged(
                        f"object {shown(one.name)} of {self.title} is longer than it was said to be"
                    )
                yield bytes(chunk)


def _entry(one: Any, title: str) -> Entry:
    if not one["e_tag"]:
        raise Refused(f"{title} gives no ETags, so that nobody can tell whether something changed")
    return Entry(one["path"], one["size"], one["e_tag"], max(0, int(one["last_modified"].timestamp())))


@contextmanager
def told(title: str, what: str = "") -> Iterator[None]:
    """Whatever the library says becomes one sentence without its words, which hold addresses and answers."""
    try:
        yield
    except StokerError:
        raise
    except Exception as error:
        text, kind = str(error), type(error).__name__
        status = next((code for found in _STATUS.findall(text) for code in found if code), "")
        code = _CODE.search(text)
        said = " ".join(filter(None, (status, code[1] if code else ""))) or kind
        if kind in ("PermissionDeniedError", "UnauthenticatedError", "PermissionError") or status in (
            "401",
            "403",
        ):
            raise NotLetIn(f"{title} does not let us in: {said}") from None
        if isinstance(error, FileNotFoundError) and not what:
            raise NotFound(f"there is no {title}: {said}") from None
        if isinstance(error, FileNotFoundError) or kind == "PreconditionError":
            raise Damaged(f"{what}{title} changed while it was read") from None
        if "error sending request" in text:
            said = "it does not answer"
        raise Unreachable(f"{what}{title} cannot be read: {said}") from None


def _client(endpoint: str, credentials: Credentials) -> ClientConfig:
    options: ClientConfig = {
        "allow_http": endpoint.startswith("http://"),  # as whoever named it said
        "connect_timeout": timedelta(seconds=10),
        "timeout": timedelta(seconds=120),
    }
    if credentials.ca is not None:
        options["root_certificate"] = certificates(credentials.ca)
    proxy = proxy_for(endpoint or "https://s3.amazonaws.com", credentials.proxy)
    if proxy is not None:
        options["proxy_url"] = proxy
    return options


def _library() -> Any:
    try:
        import obstore.store  # noqa: PLC0415 - comes with the extra `s3`
    except ImportError:
        raise Misconfigured(
            "a bucket as a source needs the package obstore; install stoker with the extra 's3'"
        ) from None
    return obstore.store
