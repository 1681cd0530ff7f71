"""Triggers of a sync and the shared clone: `spec.webhook`, `spec.polling`, `spec.storage`."""

from __future__ import annotations

from typing import Annotated, Literal

from stoker.api.field_docs import Block, describe, list_bounds, text_bounds
from stoker.api.meta import SecretKeyRef
from stoker.api.scalars import NamespaceName, PollingInterval, PortNumber, SizeQuantity

NamespaceList = Annotated[tuple[NamespaceName, ...], list_bounds(256)]


class WebhookSpec(Block):
    """Authentication of webhooks that request a sync, and the namespaces in which agents may be injected."""

    enabled: Annotated[bool | None, describe("True accepts webhook requests for this resource.")] = None
    port: Annotated[
        PortNumber | None,
        describe(
            "Expected port of the receiver. One listener serves all resources; a different port is reported "
            "in the condition WebhookReady."
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
            "Refs that a webhook request may select instead of spec.git.ref, as globs. Left out or empty: "
            "none. A request for another ref is refused."
        ),
    ] = None
    allowed_namespaces: Annotated[
        NamespaceList | None,
        describe("Namespaces in which pods may get an agent for this resource. Empty or left out: all."),
    ] = None


class PollingSpec(Block):
    """Polling of the ref, in case a webhook is lost."""

    enabled: Annotated[bool | None, describe("True makes the controller poll the ref.")] = None
    interval: Annotated[PollingInterval | None, describe("Time between two polls, at least 1s.")] = None


class SharedStorageSpec(Block):
    """A volume with one clone for all gateways, instead of one clone per agent."""

    storage_class_name: Annotated[
        Annotated[str, text_bounds(253)] | None,
        describe("StorageClass of the volume; empty: the cluster's default."),
    ] = None
    size: Annotated[SizeQuantity | None, describe("Size of the volume.")] = None
    access_mode: Annotated[
        Literal["ReadWriteMany", "ReadWriteOnce"] | None,
        describe("ReadWriteOnce is possible only while a single gateway refers to the resource."),
    ] = None
