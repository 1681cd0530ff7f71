"""The gateway and the agent beside it: `spec.gateway`, `spec.ignition`, `spec.agent`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from stoker.api.field_docs import (
    Block,
    FieldRule,
    describe,
    describe_nullable,
    map_bounds,
    matches_pattern,
    text_bounds,
)
from stoker.api.meta import SecretKeyRef
from stoker.api.scalars import Duration, ResourceAmount


class GatewaySpec(Block):
    """How the agent reaches the gateway beside it."""

    RULES: ClassVar[tuple[FieldRule, ...]] = (
        FieldRule(
            "!has(self.port) || self.port != 0",
            "gateway.port must be from 1 to 65535; to write files without contacting the gateway set "
            "gateway.filesOnly: true",
            lambda it: it.port != 0,
            at="port",
        ),
        FieldRule(
            "!(has(self.caSecretRef) && has(self.insecureSkipVerify) && self.insecureSkipVerify)",
            "insecureSkipVerify and caSecretRef exclude each other: set one of them",
            lambda it: not (it.ca_secret_ref and it.insecure_skip_verify),
            at="insecureSkipVerify",
        ),
    )

    # A rule refuses 0, because the message of a schema limit could not mention filesOnly.
    port: Annotated[
        Annotated[int, Meta(ge=0, le=65535)] | None,
        describe("Port of the gateway's web server, from 1 to 65535."),
    ] = None
    tls: Annotated[
        bool | None, describe_nullable("True if that port uses TLS. Unset is not the same as false.")
    ] = None
    api_key_secret_ref: Annotated[
        SecretKeyRef | None,
        describe(
            "The API token in the form name:secret. Needed unless filesOnly is true or an inherited base "
            "supplies it."
        ),
    ] = None
    api_key_header: Annotated[
        Annotated[
            str,
            text_bounds(
                64,
                matches_pattern(r"[Xx]-[A-Za-z0-9-]+", "must be a header such as X-Ignition-API-Token"),
                least=1,
            ),
        ]
        | None,
        describe("Name of the header in which the API token is sent."),
    ] = None
    ca_secret_ref: Annotated[
        SecretKeyRef | None, describe("Certificates in PEM form to verify the gateway's certificate with.")
    ] = None
    insecure_skip_verify: Annotated[
        bool | None,
        describe(
            "Accept any certificate. On the loopback address without caSecretRef certificates are never "
            "verified; the status has a warning about it."
        ),
    ] = None
    files_only: Annotated[
        bool | None,
        describe(
            "Write files without contacting the gateway: open Designers are not respected, and there is no "
            "scan lock, scan or verification. The last known modules and tag providers of the gateway still "
            "apply, and a scan is requested when this is false again. If false, nothing is written while the "
            "gateway does not answer or rejects the key."
        ),
    ] = None
    scan_order: Annotated[
        Literal["projectsFirst", "configFirst"] | None, describe("Which of the two scans is requested first.")
    ] = None


class IgnitionSpec(Block):
    """Behaviour of a sync towards open Designers, Perspective sessions and redundant peers."""

    designer_session_policy: Annotated[
        Literal["wait", "proceed", "fail"] | None,
        describe(
            "What to do with a project that is open in a Designer: wait until it is closed, proceed, or fail."
        ),
    ] = None
    designer_session_timeout: Annotated[
        Duration | None,
        describe("With policy wait: how long to wait until the sync of that project fails."),
    ] = None
    perspective_session_policy: Annotated[
        Literal["none", "graceful", "close"] | None,
        describe(
            "What happens to Perspective sessions of a changed project. none: nothing, sessions refresh "
            "themselves. graceful: they are shown a message and closed 10 s later; a session that cannot be "
            "shown a message, as on 8.3, stays open. close: they are closed after 10 s, with a message."
        ),
    ] = None
    redundancy_role: Annotated[
        Literal["", "primary", "backup"] | None,
        describe(
            "Role of the gateway in a redundant pair. An annotation on the pod takes precedence; empty "
            "means no pair."
        ),
    ] = None
    peer_gateway_name: Annotated[
        Annotated[str, text_bounds(253)] | None,
        describe("Name of the other gateway of the pair; empty means no pair."),
    ] = None
    binary_policy: Annotated[
        Literal["allow", "requireSigned", "refuse"] | None,
        describe(
            "What to do with changed *.bin files, which hold serialised objects that the gateway executes: "
            "allow them, allow them only from verified commits (requireSigned), or refuse them."
        ),
    ] = None


class AgentImageSpec(Block):
    """The image of the agent."""

    repository: Annotated[
        Annotated[str, text_bounds(512, least=1)] | None,
        describe("Repository of the image, without tag or digest."),
    ] = None
    tag: Annotated[
        Annotated[
            str,
            text_bounds(128, matches_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]*|", "must be the tag of an image")),
        ]
        | None,
        describe("Tag of the image."),
    ] = None
    pull_policy: Annotated[
        Literal["Always", "IfNotPresent", "Never"] | None, describe("When the image is pulled.")
    ] = None
    digest: Annotated[
        Annotated[
            str,
            text_bounds(
                71,
                matches_pattern(
                    r"|sha256:[0-9a-f]{64}", "must be sha256: and 64 hexadecimal digits, or empty"
                ),
            ),
        ]
        | None,
        describe("Digest to pin the image; takes precedence over the tag."),
    ] = None


_ResourceAmounts = Annotated[dict[str, ResourceAmount], map_bounds(16)]


class ContainerResources(Block):
    """Resource requests and limits of a container."""

    requests: Annotated[
        _ResourceAmounts | None, describe("Resource requests, such as cpu: 50m and memory: 64Mi.")
    ] = None
    limits: Annotated[
        _ResourceAmounts | None, describe("Resource limits, such as cpu: 200m and memory: 256Mi.")
    ] = None


class AgentContainerSpec(Block):
    """The agent container that is injected into each gateway's pod."""

    image: Annotated[
        AgentImageSpec | None, describe("The image of the agent. Left out: the image of the installation.")
    ] = None
    resources: Annotated[ContainerResources | None, describe("CPU and memory of the agent's container.")] = (
        None
    )
    sidecar_mode: Annotated[
        Literal["native", "container"] | None,
        describe(
            "native: an init container that keeps running, so that the gateway starts after the first sync. "
            "container: for clusters without native sidecars."
        ),
    ] = None
    startup_budget: Annotated[
        Duration | None,
        describe(
            "How long the first sync may delay the start of the gateway. After that, a gateway that was "
            "synced before starts with its current files."
        ),
    ] = None
