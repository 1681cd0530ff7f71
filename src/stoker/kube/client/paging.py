"""Reads a list page by page, as raw bytes.

Objects are not decoded here: the cache (`stoker.kube.watch.store`) decides how much of each to decode. All
pages have the same resourceVersion, or the list ends with Gone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from stoker.kube.client.codec import query_parameters
from stoker.kube.client.errors import ResponseTooLarge
from stoker.kube.client.objects import RawList

PAGE_SIZE = 500

QueryParams = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ListPage:
    """A part of a list; each item is a copy of its bytes, which keeps no response in memory.

    Items of built-in kinds have no apiVersion and kind, as the server sends them.
    """

    items: tuple[bytes, ...]
    resource_version: str
    continue_token: str
    remaining: int | None


async def list_pages(
    ask: Callable[[QueryParams], Awaitable[RawList]], selection: QueryParams, start: QueryParams, limit: int
) -> AsyncIterator[ListPage]:
    """Request one page after the other.

    If the version expires between two pages, the server answers 410 and offers to continue with a newer one.
    That offer is not used: a list of two versions contains objects that are gone. A page that is too large
    is requested in smaller pieces, because 500 Helm releases may be 500 MB.
    """
    position = start
    while True:
        try:
            answer = await ask((*selection, ("limit", str(limit)), *position))
        except ResponseTooLarge:
            if limit == 1:
                raise
            limit = max(1, limit // 4)
            continue
        page = _page(answer)
        del answer  # its items are views into the response, and the caller may process this page for long
        yield page
        if not page.continue_token:
            return
        position = query_parameters(**{"continue": page.continue_token})


def _page(answer: RawList) -> ListPage:
    return ListPage(
        items=tuple(bytes(item) for item in answer.items or ()),
        resource_version=answer.metadata.resource_version,
        continue_token=answer.metadata.continue_token,
        remaining=answer.metadata.remaining_item_count,
    )
