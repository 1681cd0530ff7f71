"""An S3-compatible bucket as an artifact origin: all objects below one prefix are one artifact.

A bucket has no commits, so the listing takes their place: the artifact's id is a digest over the name, size
and ETag of every object, and over the address. A pull reads exactly that listing: it requests each object
with its ETag (`If-Match`) and compares the listing again at the end. If the bucket changes in between, the
pull fails and is retried. A server can return pages for ever, so a listing runs in a task that has a
timeout and can be cancelled.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from stoker.artifacts.errors import (
    ArtifactAuthFailed,
    ArtifactDamaged,
    ArtifactNotFound,
    ArtifactRefused,
    ArtifactTooLarge,
    ArtifactUnreachable,
    printable_name,
)
from stoker.artifacts.limits import ArtifactLimits, ArtifactReadBudget, UncheckedFile, bounded_files
from stoker.artifacts.object_store import DEFAULT_REGION, check_egress, import_obstore, open_store
from stoker.domain.errors import StokerError
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.engine.artifact_source import ArtifactCredentialsReader, ArtifactFile

if TYPE_CHECKING:
    from obstore.store import ObjectStore

ITSELF = "HEAD"
"""The ref that means the prefix of the address itself, and not a prefix below it."""
MAX_LISTINGS = 3
LIST_SECONDS = 90.0
"""Timeout of one listing. The number of pages cannot be limited: the library requests even empty pages."""
MAX_CONCURRENT_READS = 8
SMALL_OBJECT_BYTES = 1 << 20
"""Objects up to this size are requested ahead in parallel, because each costs a round trip."""

_ID = re.compile(r"[0-9a-f]{64}")
_STATUS = re.compile(r"status code: (\d{3})|status: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z]{1,64})</Code>")
_DEFAULT_LIMITS = ArtifactLimits()
_MOMENT = 0.2


class BucketObject(NamedTuple):
    """One object; its name is relative to the prefix."""

    name: str
    size: int
    etag: str
    changed: int


class BucketOrigin:
    """One bucket, or a prefix of it, as an artifact origin."""

    def __init__(
        self,
        url: RepoUrl,
        credentials: ArtifactCredentialsReader,
        limits: ArtifactLimits = _DEFAULT_LIMITS,
        retries: int = 3,
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
        import_obstore()

    async def resolve(self, ref: GitRef) -> CommitId:
        if _ID.fullmatch(ref):
            return CommitId(ref)
        listing = await self._listing(ref)
        return listing.id(await listing.settled())

    async def pull(self, artifact: CommitId, ref: GitRef, folder: Path) -> PulledObjects:
        if _ID.fullmatch(ref):
            raise ArtifactNotFound(
                f"{artifact} is no longer in the mirror, and bucket s3://{self._bucket}/{self._prefix} keeps "
                "no history; use a prefix below it as the ref"
            )
        listing = await self._listing(ref)
        entries = await listing.entries()
        if listing.id(entries) != artifact:
            raise ArtifactDamaged(f"{listing.title} has changed since it was listed")
        return PulledObjects(artifact, listing, entries, self._limits)

    async def _listing(self, ref: GitRef) -> _BucketListing:
        below = "" if ref == ITSELF else str(ref)
        prefix = "/".join(part for part in (self._prefix, below) if part)
        title = f"bucket s3://{self._bucket}/{prefix}"
        at = (self._bucket, prefix, self._endpoint, self._region)
        credentials = await self._credentials()
        await check_egress(self._endpoint, self._region, credentials, title)
        store = open_store(*at, title, credentials, self._retries)
        return _BucketListing(store, title, self._limits, f"{self._endpoint}\0{self._bucket}\0{prefix}")


class _BucketListing:
    """Lists the objects below a prefix; each call asks the server again."""

    def __init__(self, store: ObjectStore, title: str, limits: ArtifactLimits, origin: str) -> None:
        self.store = store
        self.title = title
        self._limits = limits
        self._origin = origin

    async def settled(self) -> list[BucketObject]:
        """Return a listing that is the same twice in a row: a listing of many pages is not atomic."""
        before = await self.entries()
        for _ in range(MAX_LISTINGS):
            now = await self.entries()
            if now == before:
                return now
            before = now
        raise ArtifactDamaged(f"{self.title} changes faster than it can be listed")

    async def entries(self) -> list[BucketObject]:
        try:
            found = await asyncio.wait_for(self._listed(), min(LIST_SECONDS, self._limits.seconds))
        except TimeoutError:
            raise ArtifactUnreachable(f"{self.title} could not be listed in time") from None
        return await asyncio.to_thread(self._judged, found)

    async def _listed(self) -> list[BucketObject]:
        import obstore  # noqa: PLC0415 - only installed where buckets are used

        found: list[BucketObject] = []
        with translate_errors(self.title):
            async for some in obstore.list(self.store, chunk_size=1000):
                found += [_bucket_entry(one, self.title) for one in some]
                if len(found) > self._limits.files:
                    raise ArtifactTooLarge(f"{self.title} holds more than {self._limits.files} objects")
        return found

    def _judged(self, listed: list[BucketObject]) -> list[BucketObject]:
        found = _without_folders(listed)
        if not found:
            raise ArtifactNotFound(f"there is nothing in {self.title}")
        if sum(one.size for one in found) > self._limits.packed:
            raise ArtifactTooLarge(f"{self.title} is larger than {self._limits.packed} bytes")
        return sorted(found)

    def id(self, entries: list[BucketObject]) -> CommitId:
        digest = hashlib.sha256(self._origin.encode())
        for one in entries:
            digest.update(f"\0\0{one.name}\0{one.size}\0{one.etag}".encode())
        return CommitId(digest.hexdigest())


class PulledObjects:
    """A listing whose objects are downloaded while the caller iterates over the files."""

    def __init__(
        self, artifact: CommitId, listing: _BucketListing, entries: list[BucketObject], limits: ArtifactLimits
    ) -> None:
        self.title = listing.title
        self.made_at = max(one.changed for one in entries)
        self._id = artifact
        self._listing = listing
        self._entries = entries
        self._limits = limits
        self._reading = ArtifactReadBudget(listing.title, limits)

    def stop(self) -> None:
        self._reading.stop()

    def files(self) -> Iterator[ArtifactFile]:
        yield from bounded_files(self._named(), self.title, self._limits)
        with ThreadPoolExecutor(1) as pool:  # the caller's thread may have a running event loop
            entries = pool.submit(lambda: asyncio.run(self._listed_again())).result()
        if self._listing.id(entries) != self._id:
            raise ArtifactDamaged(f"{self.title} changed while it was read")

    async def _listed_again(self) -> list[BucketObject]:
        looking = asyncio.ensure_future(self._listing.entries())
        while not looking.done():
            self._reading.go_on()
            await asyncio.wait([looking], timeout=_MOMENT)
        return looking.result()

    def _named(self) -> Iterator[UncheckedFile]:
        waiting: deque[tuple[BucketObject, Future[bytes] | None]] = deque()
        with ThreadPoolExecutor(MAX_CONCURRENT_READS) as pool:
            for one in self._entries:
                small = one.size <= SMALL_OBJECT_BYTES
                waiting.append((one, pool.submit(self._whole, one) if small else None))
                if len(waiting) >= MAX_CONCURRENT_READS:
                    yield from self._file(*waiting.popleft())
            while waiting:
                yield from self._file(*waiting.popleft())

    def _file(self, one: BucketObject, ahead: Future[bytes] | None) -> Iterator[UncheckedFile]:
        try:
            chunks = self._chunks(one) if ahead is None else iter((ahead.result(),))
        except _ObjectGone:
            if one.size:
                raise
            return  # an empty folder's marker; a deleted file changes the final listing and is detected there
        yield UncheckedFile(one.name, one.size, chunks)

    def _whole(self, one: BucketObject) -> bytes:
        return b"".join(self._chunks(one))

    def _chunks(self, one: BucketObject) -> Iterator[bytes]:
        import obstore  # noqa: PLC0415

        self._reading.go_on()
        left = one.size
        with translate_errors(self.title, f"object {printable_name(one.name)} of "):
            answer = obstore.get(self._listing.store, one.name, options={"if_match": one.etag})
            if answer.meta["e_tag"] != one.etag or answer.meta["size"] != one.size:
                raise ArtifactDamaged(f"{self.title} changed while it was read")
            for chunk in answer.stream(min_chunk_size=1 << 20) if one.size else ():
                self._reading.go_on()
                left -= len(chunk)
                if left < 0:
                    raise ArtifactDamaged(
                        f"object {printable_name(one.name)} of {self.title} is longer than the listing says"
                    )
                yield bytes(chunk)


def _bucket_entry(one: Any, title: str) -> BucketObject:
    if not one["e_tag"]:
        raise ArtifactRefused(f"{title} gives no ETags, so changes cannot be detected")
    return BucketObject(one["path"], one["size"], one["e_tag"], max(0, int(one["last_modified"].timestamp())))


def _without_folders(listed: list[BucketObject]) -> list[BucketObject]:
    """Remove folder markers: the library drops their slash, so that they look like empty files."""
    folders = {""}
    for one in listed:
        end = one.name.rfind("/")
        while end > 0 and one.name[:end] not in folders:
            folders.add(one.name[:end])
            end = one.name.rfind("/", 0, end)
    return [one for one in listed if one.size or one.name not in folders]


class _ObjectGone(ArtifactDamaged):
    """A listed object does not exist."""


@contextmanager
def translate_errors(title: str, what: str = "") -> Iterator[None]:
    """Map the library's errors to ours without their text, which contains addresses and responses."""
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
            raise ArtifactAuthFailed(f"{title} denied access: {said}; check the login") from None
        if isinstance(error, FileNotFoundError) and not what:
            raise ArtifactNotFound(f"there is no {title}: {said}") from None
        if isinstance(error, FileNotFoundError):
            raise _ObjectGone(f"{what}{title} is listed but does not exist") from None
        if kind == "PreconditionError":
            raise ArtifactDamaged(f"{what}{title} changed while it was read") from None
        if "error sending request" in text:
            said = "the server does not answer"
        raise ArtifactUnreachable(f"{what}{title} cannot be read: {said}") from None
