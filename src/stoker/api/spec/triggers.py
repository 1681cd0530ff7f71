"""Triggers of a sync and the shared clone: `spec.webhook`, `spec.polling`, `spec.storage`."""

from __future__ import annotations

from typing import Annotated, Literal

from stoker.api.field_docs import Block, describe, list_bounds, text_bounds
from stoker.api.meta import SecretKeyRef
from stoker.api.scalars import NamespaceName, PollingInterval, PortNumber, SizeQuantity

NamespaceList = Annotated[tuple[NamespaceName, ...], list_bounds(256)]


class WebhookSpec(Block):
    """Who may ask for a sync over HTTP, and where agents may be injected."""

    enabled: Annotated[bool | None, describe("Whether the receiver accepts requests for this resource.")] = (
        None
    )
    port: Annotated[
        PortNumber | None,
        describe(
            "Port on which requests are expected. One listener serves all resources; another port is "
            "reported."
        ),
    ] = None
    secret_ref: Annotated[
        SecretKeyRef | None, describe("Key of the HMAC-SHA256 signature that requests must carry.")
    ] = None
    bearer_secret_ref: Annotated[
        SecretKeyRef | None, describe("Token for senders that cannot sign: Authorization: Bearer.")
    ] = None
    allowed_refs: Annotated[
        Annotated[tuple[Annotated[str, text_bounds(255, least=1)], ...], list_bounds(64)] | None,
        describe(
            "Refs that a request may make the resource follow beside spec.git.ref, as globs. Left out or "
            "empty: none. A request for another ref is refused."
        ),
    ] = None
    allowed_namespaces: Annotated[
        NamespaceList | None,
        describe(
            "Namespaces in which pods may get an agent for this resource; empty or left out: no further "
            "limit."
        ),
    ] = None


class PollingSpec(Block):
    """The safety net under webhooks."""

    enabled: Annotated[
        bool | None, describe("Whether the controller looks by itself if the ref has moved.")
    ] = None
    interval: Annotated[PollingInterval | None, describe("Pause between two looks, at least 1s.")] = None


class SharedStorageSpec(Block):
    """A volume that holds one clone for all gateways, in place of one clone per agent."""

    storage_class_name: Annotated[
        Annotated[str, text_bounds(253)] | None,
        describe("Class of the volume; empty means the cluster's default."),
    ] = None
    size: Annotated[SizeQuantity | None, describe("Size of the volume.")] = None
    access_mode: Annotated[
        Literal["ReadWriteMany", "ReadWriteOnce"] | None,
        describe("ReadWriteOnce is possible only while a single gateway refers to the resource."),
    ] = None
