"""Discovers which kinds the server serves.

Two requests (`/api` and `/apis`) return the aggregated form, which every server since 1.27 supports; with the
ETag of the last response an unchanged one costs a few hundred bytes. An older server answers the same
requests with names only; each group and version is then requested separately. A group whose own server is
down does not hide the others: it is listed as unavailable (`stoker.kube.client.served_kinds`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

import msgspec

from stoker.kube.client import codec
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import ApiError
from stoker.kube.client.resources import ApiResource
from stoker.kube.client.served_kinds import KindCatalog, ServedResource, UnavailableGroupVersion, prefer_first

ROOTS = ("/api", "/apis")
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
ACCEPT = ",".join((_AGGREGATED.format("v2"), _AGGREGATED.format("v2beta1"), "application/json"))

T = TypeVar("T")


class _DiscoveredKind(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class _DiscoveredSubresource(msgspec.Struct, frozen=True):
    subresource: str


class _DiscoveredResource(msgspec.Struct, frozen=True, rename="camel"):
    """One resource in the aggregated form."""

    resource: str
    scope: str = ""
    response_kind: _DiscoveredKind | None = None
    verbs: list[str] | None = None
    short_names: list[str] | None = None
    singular_resource: str = ""
    categories: list[str] | None = None
    subresources: list[_DiscoveredSubresource] | None = None


class _DiscoveredVersion(msgspec.Struct, frozen=True):
    version: str
    freshness: str = ""
    resources: list[_DiscoveredResource] | None = None


class _DiscoveredName(msgspec.Struct, frozen=True):
    name: str = ""


class _DiscoveredGroup(msgspec.Struct, frozen=True):
    metadata: _DiscoveredName = _DiscoveredName()
    versions: list[_DiscoveredVersion] = []


class _LegacyGroupVersion(msgspec.Struct, frozen=True, rename="camel"):
    group_version: str


class _LegacyGroup(msgspec.Struct, frozen=True, rename="camel"):
    """One group in the legacy form: names only."""

    versions: list[_LegacyGroupVersion] = []
    preferred_version: _LegacyGroupVersion | None = None


class _DiscoveryRoot(msgspec.Struct, frozen=True):
    """A response of a root: aggregated (`items`), or legacy (`groups` under /apis, `versions` under /api)."""

    items: list[_DiscoveredGroup] | None = None
    groups: list[_LegacyGroup] | None = None
    versions: list[str] | None = None


class _LegacyResource(msgspec.Struct, frozen=True, rename="camel"):
    """One resource or subresource (`pods/status`) in the legacy form."""

    name: str
    kind: str = ""
    namespaced: bool = False
    verbs: list[str] | None = None
    short_names: list[str] | None = None
    singular_name: str = ""
    categories: list[str] | None = None


class _LegacyResourceList(msgspec.Struct, frozen=True):
    resources: list[_LegacyResource] | None = None


@dataclass(frozen=True, slots=True)
class _DiscoveryPart:
    """The result of one root, and its ETag for the next request."""

    etag: str
    served: tuple[ServedResource, ...]
    unavailable: tuple[UnavailableGroupVersion, ...]


class Discovery:
    """Discovery of one server; caches the last responses."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._parts: dict[str, _DiscoveryPart] = {}

    async def refresh(self) -> KindCatalog:
        """Return what is served now; raise if the server as a whole cannot be reached."""
        self._parts = {root: await self._look(root) for root in ROOTS}
        return KindCatalog(
            tuple(each for part in self._parts.values() for each in part.served),
            tuple(each for part in self._parts.values() for each in part.unavailable),
        )

    async def _look(self, root: str) -> _DiscoveryPart:
        known = self._parts.get(root)
        headers = {"Accept": ACCEPT}
        if known and known.etag:
            headers["If-None-Match"] = known.etag
        answer = await self._client.raw("GET", root, headers=headers)
        if answer.status == 304 and known:
            return known
        told = codec.decode(answer.body, _DiscoveryRoot, f"GET {root}")
        if told.items is not None:
            served, unavailable = _parse_aggregated(told.items)
            return _DiscoveryPart(answer.headers.get("ETag", ""), served, unavailable)
        return await self._look_one_by_one(root, _preferred_versions(told))

    async def _look_one_by_one(self, root: str, api_versions: Iterable[str]) -> _DiscoveryPart:
        served: list[ServedResource] = []
        unavailable: list[UnavailableGroupVersion] = []
        for api_version in api_versions:
            path = f"{root}/{quote(api_version, safe='/')}"
            try:
                answer = await self._client.raw("GET", path)
                told = codec.decode(answer.body, _LegacyResourceList, f"GET {path}")
            except ApiError as error:
                unavailable.append(UnavailableGroupVersion(api_version, error.message))
            else:
                served += _served_resources(api_version, told.resources or ())
        return _DiscoveryPart("", tuple(prefer_first(served)), tuple(unavailable))


def _parse_aggregated(
    groups: list[_DiscoveredGroup],
) -> tuple[tuple[ServedResource, ...], tuple[UnavailableGroupVersion, ...]]:
    served: list[ServedResource] = []
    unavailable: list[UnavailableGroupVersion] = []
    for group in groups:
        name = group.metadata.name
        for version in group.versions:
            if version.freshness == "Stale":
                api_version = f"{name}/{version.version}" if name else version.version
                why = "the server behind it does not answer; what is known of it is old"
                unavailable.append(UnavailableGroupVersion(api_version, why))
            served += [_served_resource(name, version.version, each) for each in version.resources or ()]
    return tuple(prefer_first(served)), tuple(unavailable)


def _served_resource(group: str, version: str, told: _DiscoveredResource) -> ServedResource:
    kind = told.response_kind.kind if told.response_kind else ""
    return ServedResource(
        ApiResource(group, version, told.resource, kind, namespaced=told.scope == "Namespaced"),
        verbs=frozenset(told.verbs or ()),
        subresources=frozenset(each.subresource for each in told.subresources or ()),
        short_names=tuple(told.short_names or ()),
        singular=told.singular_resource,
        categories=tuple(told.categories or ()),
    )


def _preferred_versions(told: _DiscoveryRoot) -> list[str]:
    """Return the api versions of a legacy root, the preferred version of each group first."""
    order = list(told.versions or ())
    for group in told.groups or ():
        first = [group.preferred_version] if group.preferred_version else []
        order += dict.fromkeys(each.group_version for each in (*first, *group.versions))
    return order


def _served_resources(api_version: str, told: Iterable[_LegacyResource]) -> list[ServedResource]:
    group, _, version = api_version.rpartition("/")
    told = list(told)
    below: dict[str, set[str]] = {}
    for each in told:
        parent, slash, subresource = each.name.partition("/")
        if slash:
            below.setdefault(parent, set()).add(subresource)
    return [
        ServedResource(
            ApiResource(group, version, each.name, each.kind, namespaced=each.namespaced),
            verbs=frozenset(each.verbs or ()),
            subresources=frozenset(below.get(each.name, ())),
            short_names=tuple(each.short_names or ()),
            singular=each.singular_name,
            categories=tuple(each.categories or ()),
        )
        for each in told
        if "/" not in each.name
    ]
