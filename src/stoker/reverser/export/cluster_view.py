"""Read a cluster once: the selection of the rules there, and the objects in its lists.

For a single run, as an export does; the reverser watches instead. Lists are consistent (read from storage,
not from the API server's watch cache) and read page by page; an object is decoded, used and dropped. A failed
request is reported in `troubles` and does not stop the others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from stoker.api.registry import KINDS
from stoker.domain.git_objects import PathNote
from stoker.kube.client import codec
from stoker.kube.client.client import LIST_TRIES, KubeClient
from stoker.kube.client.discovery import Discovery
from stoker.kube.client.errors import ApiError, Gone, NotFound, Unauthorized
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import NAMESPACES, ApiResource
from stoker.kube.client.served_kinds import KindCatalog
from stoker.reverser.export.types import ExportJob
from stoker.reverser.manifest.named_secrets import SecretRef, referenced_secrets
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.selection.kinds import InertReason
from stoker.reverser.selection.labels import ObjectLabels
from stoker.reverser.selection.selection import Selection, WatchedKind, select_objects

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The facts about a cluster that rules and policies need."""

    catalog: KindCatalog
    selection: Selection
    own: frozenset[SecretRef] | None
    """Secrets that resources of the product name; None if they cannot be determined."""
    labels: Mapping[str, ObjectLabels] | None = None
    """The labels of each namespace; None if no rule needs them or they cannot be listed."""
    cluster_uid: str = UNKNOWN
    troubles: tuple[PathNote, ...] = ()
    notices: tuple[str, ...] = ()

    def labels_of(self, namespace: str) -> ObjectLabels | None:
        return None if self.labels is None else self.labels.get(namespace)


@dataclass(slots=True)
class _ClusterReader:
    """Reads the parts of a cluster view and collects errors."""

    client: KubeClient
    troubles: list[PathNote] = field(default_factory=list)

    async def own(self, catalog: KindCatalog, known: frozenset[SecretRef]) -> frozenset[SecretRef] | None:
        """Return the Secrets that resources of the product name, where the product is installed."""
        found = set(known)
        try:
            for kind in KINDS:
                served = catalog.preferred(kind.group, kind.plural)
                if served is None:
                    continue
                async for _, obj in list_objects(self.client, WatchedKind(served.resource)):
                    found |= referenced_secrets(kind, obj)
        except Unauthorized:
            raise
        except ApiError as error:
            why = f"it is not known which resources of this product name: {error.message}"
            self.troubles.append(PathNote("secrets", why))
            return None
        return frozenset(found)

    async def namespaces(self, selection: Selection) -> Mapping[str, ObjectLabels] | None:
        if not any(rule.namespace_labels.requirements for rule in selection.rules):
            return None
        try:
            found = await self.client.list(NAMESPACES, into=ObjectHeader)
        except Unauthorized:
            raise
        except ApiError as error:
            self.troubles.append(PathNote(str(NAMESPACES), error.message))
            return None
        return {each.metadata.name: each.metadata.labels for each in found}

    async def cluster_uid(self) -> str:
        try:
            return (
                await self.client.get(NAMESPACES, "kube-system", into=ObjectHeader)
            ).metadata.uid or UNKNOWN
        except Unauthorized:
            raise
        except ApiError:
            return UNKNOWN


async def read_cluster_view(client: KubeClient, job: ExportJob) -> ClusterView:
    """Discover the served kinds and read the facts around them; raises only if the server is unreachable."""
    catalog = await Discovery(client).refresh()
    selection = select_objects(job.rules, catalog, excluded=job.excluded)
    looking = _ClusterReader(client)
    own = await looking.own(catalog, job.own)
    labels = await looking.namespaces(selection)
    uid = await looking.cluster_uid()
    hidden = [each for each in selection.inert if each.why is InertReason.PARTIAL_DISCOVERY]
    # A preset names more kinds than many clusters serve. Only for rules that a user wrote is that reported.
    told = [
        each
        for each in selection.inert
        if each not in hidden and (each.rule.kind != "preset" or each.why is not InertReason.UNKNOWN_KIND)
    ]
    looking.troubles += (PathNote(each.name, each.detail) for each in hidden)
    return ClusterView(
        catalog, selection, own, labels, uid, tuple(looking.troubles), tuple(dict.fromkeys(map(str, told)))
    )


async def list_objects(
    client: KubeClient, watched: WatchedKind
) -> AsyncIterator[tuple[ManifestKey, dict[str, Any]]]:
    """Yield every object of a list; a list that expires between two pages restarts and repeats objects."""
    resource = watched.resource
    what = resource.words("list", watched.namespace or None)
    tries = 0
    while True:
        try:
            async for page in client.pages(resource, watched.namespace or None):
                for item in page.items:
                    yield _complete_object(resource, codec.decode(item, dict, what))
        except Gone:
            tries += 1
            if tries == LIST_TRIES:
                raise
        else:
            return


async def read_object(
    client: KubeClient, resource: ApiResource, namespace: str, name: str
) -> tuple[ManifestKey, dict[str, Any]] | None:
    """Return an object; None if it does not exist."""
    try:
        found = await client.get(resource, name, namespace or None, into=dict)
    except NotFound:
        return None
    return _complete_object(resource, found)


def _complete_object(resource: ApiResource, obj: dict[str, Any]) -> tuple[ManifestKey, dict[str, Any]]:
    """Add apiVersion and kind, which items of built-in kinds lack."""
    whole = {**obj, "apiVersion": resource.api_version, "kind": resource.kind}
    metadata = whole.get("metadata") or {}
    key = ManifestKey(
        resource.group,
        resource.version,
        resource.plural,
        str(metadata.get("namespace") or ""),
        str(metadata.get("name") or ""),
    )
    return key, whole
