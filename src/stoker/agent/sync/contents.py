"""Contents between the source and the data folder: derived, checked, streamed.

Git does not hold the content of a file that a template, a normalization or a patch changes. This module
derives it from the content in git at the moment it is needed, and names it by its own blob id. Every content
is checked once while it is written to staging, before any live file changes: a Git LFS pointer or an invalid
`.json` file is reported by name, and the sync ends before its first rename.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from stoker.domain.errors import InvalidValue, Stalled, StokerError
from stoker.domain.git_objects import Blob, BlobId, blob_of
from stoker.domain.reasons import Reason
from stoker.engine.layout.desired_files import ContentTransform
from stoker.engine.plan.plan import WriteFile
from stoker.engine.source_protocol import SourceReader
from stoker.engine.transform.json_quick_check import is_surely_json
from stoker.engine.transform.templates import MAX_BYTES

MAX_SHAPED = MAX_BYTES
"""A larger file is not templated, normalized, patched or checked: such files are not written by hand."""
FEW = 64
"""Up to this many JSON files, a quick check of each is cheaper than importing the parser."""
_MAX_NAMED = 5
_POINTER = b"version https://git-lfs.github.com/spec/"
_MAX_POINTER = 1024


class ContentDerivation(NamedTuple):
    """How to derive a content that git does not hold."""

    source: BlobId
    recipe: ContentTransform


class LfsPointersFound(StokerError):
    """Some contents are Git LFS pointers to content stored elsewhere; the caller plans again without them."""

    def __init__(self, blobs: frozenset[BlobId]) -> None:
        super().__init__("the repository holds Git LFS pointers")
        self.blobs = blobs


def derive_blob_ids(
    reader: SourceReader, wanted: Mapping[str, tuple[BlobId, ContentTransform]]
) -> tuple[dict[str, BlobId], dict[BlobId, ContentDerivation]]:
    """Return the blob id of each file's transformed content, and how to derive it again.

    Runs in a worker thread.
    """
    results: dict[str, BlobId] = {}
    derived: dict[BlobId, ContentDerivation] = {}
    sources = [source for source, _ in wanted.values()]
    for (path, (source, recipe)), blob in zip(wanted.items(), reader.contents(sources), strict=True):
        made = _transform_blob(blob, recipe, path)
        results[path] = blob_of(made, digits=len(source))
        if results[path] != source:
            derived[results[path]] = ContentDerivation(source, recipe)
    return results, derived


class PlanContents:
    """The contents of one plan, by blob id."""

    def __init__(
        self, reader: SourceReader, derived: Mapping[BlobId, ContentDerivation], checked: Mapping[BlobId, str]
    ) -> None:
        """`checked` maps each blob that must be JSON to a path for the error message."""
        self._reader = reader
        self._derived = derived
        self._checked = checked
        self._pointers: set[BlobId] = set()
        self._broken: dict[str, str] = {}

    @classmethod
    def of(
        cls, reader: SourceReader, derived: Mapping[BlobId, ContentDerivation], writes: Sequence[WriteFile]
    ) -> PlanContents:
        checked = {write.version.blob: write.path for write in writes if write.path.endswith(".json")}
        return cls(reader, derived, checked)

    def __call__(self, blobs: Sequence[BlobId]) -> Iterator[Blob]:
        """Yield the contents; raise after the last if any of them must not go live.

        Runs in a worker thread.
        """
        sources = [self.source(blob) for blob in blobs]
        for wanted, blob in zip(blobs, self._reader.contents(sources), strict=True):
            yield self._passed(wanted, blob)
        if self._pointers:
            raise LfsPointersFound(frozenset(self._pointers))
        if self._broken:
            raise _transform_error(self._broken)

    def source(self, blob: BlobId) -> BlobId:
        made = self._derived.get(blob)
        return blob if made is None else made.source

    def _passed(self, wanted: BlobId, blob: Blob) -> Blob:
        made = self._derived.get(wanted)
        path = self._checked.get(wanted)
        if made is None and (path is None or blob.size > MAX_SHAPED) and blob.size > _MAX_POINTER:
            return blob
        content = (
            b"".join(blob.chunks) if made is None else _transform_blob(blob, made.recipe, path or wanted)
        )
        if len(content) <= _MAX_POINTER and content.startswith(_POINTER):
            self._pointers.add(wanted)
        elif path is not None and (why := self._why_not_json(content)) is not None:
            self._broken[path] = why
        return Blob(wanted, len(content), iter((content,)))

    def _why_not_json(self, content: bytes) -> str | None:
        if len(self._checked) <= FEW and is_surely_json(content):
            return None
        return _load_json_check()(content)


@cache
def _load_json_check() -> Callable[[bytes], str | None]:
    from stoker.engine.transform.json_check import json_problem  # noqa: PLC0415 - a parser, only for syncs that write many files

    return json_problem


def _transform_blob(blob: Blob, recipe: ContentTransform, name: str) -> bytes:
    if blob.size > MAX_SHAPED:
        raise InvalidValue(
            f"{name} has {blob.size} bytes; a file of more than {MAX_SHAPED} is not templated or patched"
        )
    return recipe.apply(b"".join(blob.chunks))


def _transform_error(broken: Mapping[str, str]) -> Stalled:
    named = "; ".join(f"{path} is not JSON: {why}" for path, why in sorted(broken.items())[:_MAX_NAMED])
    more = f"; and {len(broken) - _MAX_NAMED} more" if len(broken) > _MAX_NAMED else ""
    return Stalled(
        f"{named}{more}; nothing was changed (fix it in the repository, or exclude it)",
        reason=Reason.CONFIG_SYNTAX_ERROR,
    )
