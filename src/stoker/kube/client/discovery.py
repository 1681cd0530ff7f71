"""Which kinds the server serves.

Two requests (`/api` and `/apis`) bring the aggregated form, which every server
since 1.27 speaks; with the ETag of the last answer an unchanged one costs a few
hundred bytes. An older server answers the same requests with names only, and is
then asked for each group and version by itself. A group that cannot be described
because the server behind it is down does not hide the others: it is listed as
unavailable (`stoker.kube.client.served_kinds`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

import msgspec

from stoker.kube.client import codec
from stoker.kube.client.client import Client
from stoker.kube.client.errors import ApiError
from stoker.kube.client.resources import Resource
from stoker.kube.client.served_kinds import Catalog, Served, Unavailable, prefer_first

ROOTS = ("/api", "/apis")
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
ACCEPT = ",".join((_AGGREGATED.format("v2"), _AGGREGATED.format("v2beta1"), "application/json"))

T = TypeVar("T")


class _Kind(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Subresource(msgspec.Struct, frozen=True):
    subresource: str


class _Described(msgspec.Struct, frozen=True, rename="camel"):
    """One resource in the aggregated form."""

    resource: str
    scope: str = ""
    response_kind: _Kind | None = None
    verbs: list[str] | None = None
    short_names: list[str] | None = None
    singular_resource: str = ""
    categories: list[str] | None = None
    subresources: list[_Subresource] | None = None


class _Version(msgspec.Struct, frozen=True):
    version: str
    freshness: str = ""
    resources: list[_Described] | None = None


class _Name(msgspec.Struct, frozen=True):
    name: str = ""


class _Group(msgspec.Struct, frozen=True):
    metadata: _Name = _Name()
    versions: list[_Version] = []


class _GroupVersion(msgspec.Struct, frozen=True, rename="camel"):
    group_version: str


class _NamedGroup(msgspec.Struct, frozen=True, rename="camel"):
    """One group in the form of old: names only."""

    versions: list[_GroupVersion] = []
    preferred_version: _GroupVersion | None = None


class _Root(msgspec.Struct, frozen=True):
    """Any answer of a root: aggregated (`items`), or of old (`groups` under /apis, `versions` under /api)."""

    items: list[_Group] | None = None
    groups: list[_NamedGroup] | None = None
    versions: list[str] | None = None


class _Listed(msgspec.Struct, frozen=True, rename="camel"):
    """One resource or subresource (`pods/status`) in the form of old."""

    name: str
    kind: str = ""
    namespaced: bool = False
    verbs: list[str] | None = None
    short_names: list[str] | None = None
    singular_name: str = ""
    categories: list[str] | None = None


class _ResourceList(msgspec.Struct, frozen=True):
    resources: list[_Listed] | None = None


@dataclass(frozen=True, slots=True)
class _Part:
    """What one root told, and the tag under which it will say "unchanged"."""

    etag: str
    served: tuple[Served, ...]
    unavailable: tuple[Unavailable, ...]


class Discovery:
    """Asks one server, and remembers its last answer."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._parts: dict[str, _Part] = {}

    async def refresh(self) -> Catalog:
        """What is served now; raises if the server as a whole cannot be asked."""
        self._parts = {root: await self._look(root) for root in ROOTS}
        return Catalog(
            tuple(each for part in self._parts.values() for each in part.served),
            tuple(each for part in self._parts.values() for each in part.unavailable),
        )

    async def _look(self, root: str) -> _Part:
        known = self._parts.get(root)
        headers = {"Accept": ACCEPT}
        if known and known.etag:
            headers["If-None-Match"] = known.etag
        answer = await self._client.raw("GET", root, headers=headers)
        if answer.status == 304 and known:
            return known
        told = codec.decode(answer.body, _Root, f"GET {root}")
        if told.items is not None:
            served, unavailable = _aggregated(told.items)
            return _Part(answer.headers.get("ETag", ""), served, unavailable)
        return await self._look_one_by_one(root, _in_order(told))

    async def _look_one_by_one(self, root: str, api_versions: Iterable[str]) -> _Part:
        served: list[Served] = []
        unavailable: list[Unavailable] = []
        for api_version in api_versions:
            path = f"{root}/{quote(api_version, safe='/')}"
            try:
                answer = await self._client.raw("GET", path)
                told = codec.decode(answer.body, _ResourceList, f"GET {path}")
            except ApiError as error:
                unavailable.append(Unavailable(api_version, error.message))
            else:
                served += _listed(api_version, told.resources or ())
        return _Part("", tuple(prefer_first(served)), tuple(unavailable))


def _aggregated(groups: list[_Group]) -> tuple[tuple[Served, ...], tuple[Unavailable, ...]]:
    served: list[Served] = []
    unavailable: list[Unavailable] = []
    for group in groups:
        name = group.metadata.name
        for version in group.versions:
            if version.freshness == "Stale":
                api_version = f"{name}/{version.version}" if name else version.version
                why = "the server behind it does not answer; what is known of it is old"
                unavailable.append(Unavailable(api_version, why))
            served += [_described(name, version.version, each) for each in version.resources or ()]
    return tuple(prefer_first(served)), tuple(unavailable)


def _described(group: str, version: str, told: _Described) -> Served:
    kind = told.response_kind.kind if told.response_kind else ""
    return Served(
        Resource(group, version, told.resource, kind, namespaced=told.scope == "Namespaced"),
        verbs=frozenset(told.verbs or ()),
        subresources=frozenset(each.subresource for each in told.subresources or ()),
        short_names=tuple(told.short_names or ()),
        singular=told.singular_resource,
        categories=tuple(told.categories or ()),
    )


def _in_order(told: _Root) -> list[str]:
    """The api versions that a root of old names, the preferred one of each group first."""
    order = list(told.versions or ())
    for group in told.groups or ():
        first = [group.preferred_version] if group.preferred_version else []
        order += dict.fromkeys(each.group_version for each in (*first, *group.versions))
    return order


def _listed(api_version: str, told: Iterable[_Listed]) -> list[Served]:
    group, _, version = api_version.rpartition("/")
    told = list(told)
    below: dict[str, set[str]] = {}
    for each in told:
        parent, slash, subresource = each.name.partition("/")
        if slash:
            below.setdefault(parent, set()).add(subresource)
    return [
        Served(
            Resource(group, version, each.name, each.kind, namespaced=each.namespaced),
            verbs=frozenset(each.verbs or ()),
            subresources=frozenset(below.get(each.name, ())),
            short_names=tuple(each.short_names or ()),
            singular=each.singular_name,
            categories=tuple(each.categories or ()),
        )
        for each in told
        if "/" not in each.name
    ]
