"""The verbs of the Kubernetes API.

Each verb defines the request and the type of the response. `stoker.kube.client.transport` sends it, with
credentials and retries, and `stoker.kube.client.errors` defines what an error means. The client stores no
objects: lists are passed on page by page as raw bytes, watches line by line.
"""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import InvalidValue
from stoker.kube.client import codec, paging
from stoker.kube.client.errors import Gone
from stoker.kube.client.objects import RawList
from stoker.kube.client.paging import PAGE_SIZE, ListPage
from stoker.kube.client.resources import SECRETS, ApiResource, check_path
from stoker.kube.client.token_bucket import RequestRate
from stoker.kube.client.transport import MAX_BODY, ApiRequest, ApiResponse, Transport
from stoker.kube.config.config import ClusterConfig
from stoker.kube.watch.line_splitter import split_lines

__all__ = ["ApiResponse", "KubeClient", "ListPage", "RequestRate"]

T = TypeVar("T")

# Attempts at a list whose continue token expired.
LIST_TRIES = 3
# With it the server sends only the metadata of objects: the values of Secrets never reach this process.
_HEADS = "application/json;as={};g=meta.k8s.io;v=v1"
# Seconds beyond the requested timeout of a watch after which its connection counts as dead.
WATCH_GRACE_SECONDS = 15.0


class _WriteVerb(NamedTuple):
    """A verb with an object as body: its name in messages, its HTTP method and content type."""

    verb: str
    method: str
    content_type: str


_CREATE = _WriteVerb("create", "POST", "application/json")
_REPLACE = _WriteVerb("replace", "PUT", "application/json")
_PATCH = _WriteVerb("patch", "PATCH", "application/merge-patch+json")
# JSON is valid YAML, and cheaper to write.
_APPLY = _WriteVerb("apply", "PATCH", "application/apply-patch+yaml")


class KubeClient:
    """A client of the API server with one identity; an async context manager."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        clock: Clock = SystemClock(),  # noqa: B008 - it has no state
        user_agent: str = "stoker",
        rate: RequestRate | None = None,
        max_body: int = MAX_BODY,
    ) -> None:
        self.config = config
        self._transport = Transport(config, clock=clock, user_agent=user_agent, rate=rate, max_body=max_body)

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)

    async def get(
        self, resource: ApiResource, name: str, namespace: str | None = None, *, into: type[T]
    ) -> T:
        """Get one object."""
        what = resource.words("get", namespace, name)
        return await self._ask(ApiRequest("GET", resource.path(namespace, name), what), into)

    async def list(
        self,
        resource: ApiResource,
        namespace: str | None = None,
        *,
        into: type[T],
        labels: str | None = None,
        fields: str | None = None,
    ) -> builtins.list[T]:
        """List all objects, of all pages. A list that expires between two pages starts again."""
        what = resource.words("list", namespace)
        tries = 0
        while True:
            items: builtins.list[T] = []
            try:
                async for page in self.pages(resource, namespace, labels=labels, fields=fields):
                    items.extend(codec.decode(item, into, what) for item in page.items)
            except Gone:
                tries += 1
                if tries == LIST_TRIES:
                    raise
            else:
                return items

    def pages(
        self,
        resource: ApiResource,
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        limit: int = PAGE_SIZE,
        resource_version: str | None = None,
        resource_version_match: str | None = None,
        metadata_only: bool = False,
    ) -> AsyncIterator[ListPage]:
        """Iterate over the pages of a list, all of one resourceVersion.

        Raises Gone if that version expires between two pages: the earlier pages are then invalid, and the
        caller
        must discard them.
        """
        what = resource.words("list", namespace)
        path = resource.path(namespace)
        headers = {"Accept": _HEADS.format("PartialObjectMetadataList")} if metadata_only else {}

        async def ask(query: paging.QueryParams) -> RawList:
            return await self._ask(ApiRequest("GET", path, what, query, headers=headers), RawList)

        selection = codec.query_parameters(labelSelector=labels, fieldSelector=fields)
        start = codec.query_parameters(
            resourceVersion=resource_version, resourceVersionMatch=resource_version_match
        )
        return paging.list_pages(ask, selection, start, limit)

    async def create(
        self, resource: ApiResource, body: object, namespace: str | None = None, *, into: type[T]
    ) -> T:
        """Create with POST; raises AlreadyExists."""
        if resource.namespaced and not namespace:
            raise InvalidValue(f"{resource} lives in a namespace, yet none was named to create it in")
        return await self._write(_CREATE, resource, body, into, namespace=namespace)

    async def replace(
        self,
        resource: ApiResource,
        body: object,
        name: str,
        namespace: str | None = None,
        *,
        into: type[T],
        subresource: str | None = None,
    ) -> T:
        """Replace with PUT; raises Conflict unless the body's resourceVersion is the current one."""
        return await self._write(
            _REPLACE, resource, body, into, namespace=namespace, name=name, subresource=subresource
        )

    async def patch(
        self,
        resource: ApiResource,
        body: object,
        name: str,
        namespace: str | None = None,
        *,
        into: type[T],
        subresource: str | None = None,
        manager: str | None = None,
    ) -> T:
        """Send a JSON merge patch: null removes, a list replaces.

        A resourceVersion in it makes it optimistic.

        `manager` is the field manager that the server records; without it the server uses the name of this
        client.
        """
        query = codec.query_parameters(fieldManager=manager)
        return await self._write(
            _PATCH, resource, body, into, namespace=namespace, name=name, subresource=subresource, query=query
        )

    async def apply(
        self,
        resource: ApiResource,
        body: object,
        name: str,
        namespace: str | None = None,
        *,
        manager: str,
        force: bool = True,
        into: type[T],
        subresource: str | None = None,
    ) -> T:
        """Server-side apply; without `force` a field of another manager raises Conflict."""
        query = codec.query_parameters(fieldManager=manager, force="true" if force else "false")
        return await self._write(
            _APPLY, resource, body, into, namespace=namespace, name=name, subresource=subresource, query=query
        )

    async def delete(
        self,
        resource: ApiResource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str = "Background",
    ) -> None:
        """Delete exactly this object; raises Conflict if uid or resourceVersion are not current."""
        conditions = {"uid": uid, "resourceVersion": resource_version}
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": propagation,
            "preconditions": {key: value for key, value in conditions.items() if value is not None},
        }
        what = resource.words("delete", namespace, name)
        headers = {"Content-Type": "application/json"}
        path = resource.path(namespace, name)
        await self._transport.send(ApiRequest("DELETE", path, what, (), codec.encode(options), headers))

    def watch(
        self,
        resource: ApiResource,
        namespace: str | None = None,
        *,
        resource_version: str,
        labels: str | None = None,
        fields: str | None = None,
        timeout_seconds: int,
        idle_timeout: float | None = None,
        metadata_only: bool = False,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Watch the changes since `resource_version`, one JSON line each, until the server ends the watch.

        Bookmarks are requested. ERROR events are lines like any other. Raises Gone if the server answers 410
        at
        once, ApiServerUnreachable after `idle_timeout` seconds without a byte.
        """
        what = resource.words("watch", namespace)
        query = codec.query_parameters(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            timeoutSeconds=str(timeout_seconds),
            labelSelector=labels,
            fieldSelector=fields,
        )
        silence = timeout_seconds + WATCH_GRACE_SECONDS if idle_timeout is None else idle_timeout
        headers = {"Accept": _HEADS.format("PartialObjectMetadata")} if metadata_only else {}
        return self._lines(ApiRequest("GET", resource.path(namespace), what, query, headers=headers), silence)

    async def raw(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ApiResponse:
        """Send any other request: an escaped path, the response undecoded; errors are raised."""
        check_path(path)
        what = f"{method} {path}"
        return await self._transport.send(
            ApiRequest(method, path, what, codec.query_parameters(**(query or {})), body, headers or {})
        )

    async def _ask(self, request: ApiRequest, into: type[T]) -> T:
        response = await self._transport.send(request)
        return codec.decode(response.body, into, request.what)

    async def _write(
        self,
        write: _WriteVerb,
        resource: ApiResource,
        body: object,
        into: type[T],
        *,
        namespace: str | None,
        name: str | None = None,
        subresource: str | None = None,
        query: paging.QueryParams = (),
    ) -> T:
        request = ApiRequest(
            write.method,
            resource.path(namespace, name, subresource),
            resource.words(write.verb, namespace, name, subresource),
            query,
            codec.encode(body),
            {"Content-Type": write.content_type},
            confidential=(resource.group, resource.plural) == (SECRETS.group, SECRETS.plural),
        )
        return await self._ask(request, into)

    @contextlib.asynccontextmanager
    async def _lines(self, request: ApiRequest, silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        async with (
            self._transport.stream(request, silence=silence) as chunks,
            contextlib.aclosing(split_lines(chunks, request.what)) as lines,
        ):
            yield lines
