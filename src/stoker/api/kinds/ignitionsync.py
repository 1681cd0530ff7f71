"""`IgnitionSync` and the `IgnitionSyncBase` that it may inherit from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

from stoker.api.field_docs import FieldRule, declared_default, describe
from stoker.api.kinds.policies import InheritableSpec
from stoker.api.kinds.resource import CustomResource, LabelledResource
from stoker.api.kinds.sync import COMPLETE, SyncSpec
from stoker.api.meta import NamespacedRef
from stoker.api.spec.content import AdditionalFiles, SharedContentSpec
from stoker.api.spec.git import GitAccessSpec
from stoker.api.spec.status import SyncStatus
from stoker.api.spec.triggers import SharedStorageSpec

GROUP = "sync.ignition.io"

ALLOWED_NAMESPACES = f"{GROUP}/allowed-namespaces"
"""Annotation of a base: namespaces that may inherit from it, separated by commas, or `*`."""

_SharedField = Annotated[
    SharedContentSpec | None, describe("Content for every gateway; each part is enabled separately.")
]
_AdditionalFilesField = Annotated[
    AdditionalFiles | None, describe("Additional files and folders for every gateway.")
]
_StorageField = Annotated[
    SharedStorageSpec | None,
    describe("Keep one clone on a shared volume. Left out: each agent keeps its own.", stability="stable"),
]


def _part_has(part: str, attribute: str) -> Callable[[IgnitionSyncSpec], bool]:
    def holds(spec: IgnitionSyncSpec) -> bool:
        block = getattr(spec.shared, part, None)
        return block is None or block.enabled is False or getattr(block, attribute) is not None

    return holds


def _part_needs(part: str, part_attribute: str, name: str, attribute: str) -> FieldRule:
    return FieldRule(
        f"!self.?shared.?{part}.hasValue() || !self.shared.{part}.?enabled.orValue(true)"
        f" || has(self.shared.{part}.{name})",
        f"shared.{part}.{name} must be given unless shared.{part}.enabled is false",
        _part_has(part_attribute, attribute),
        at="shared",
    )


COMPLETE_IGNITION_SYNC: tuple[FieldRule, ...] = (
    *COMPLETE,
    FieldRule(
        "has(self.gateway)",
        "gateway must be given, with apiKeySecretRef or with filesOnly",
        lambda it: it.gateway is not None,
    ),
    _part_needs("externalResources", "external_resources", "source", "source"),
    _part_needs("scripts", "scripts", "source", "source"),
    _part_needs("scripts", "scripts", "destPath", "dest_path"),
    _part_needs("udts", "udts", "source", "source"),
    _part_needs("modules", "modules", "source", "source"),
)


class IgnitionSyncSpec(SyncSpec):
    """The source, and how it is delivered to the gateways that name this resource."""

    RULES: ClassVar[tuple[FieldRule, ...]] = tuple(
        rule.unless("has(self.inheritsFrom)", lambda it: it.inherits_from is not None)
        for rule in COMPLETE_IGNITION_SYNC
    )

    inherits_from: Annotated[
        NamespacedRef | None,
        describe(
            "An IgnitionSyncBase that supplies the fields left out here. Lists are joined and maps merged; "
            "single values of this resource win."
        ),
    ] = None
    storage: _StorageField = None
    shared: _SharedField = None
    additional_files: _AdditionalFilesField = None


class IgnitionSync(LabelledResource):
    """Keeps the gateways that name it in sync with a git repository."""

    api_version: Literal["sync.ignition.io/v1alpha1"] = declared_default("sync.ignition.io/v1alpha1")
    kind: Literal["IgnitionSync"] = declared_default("IgnitionSync")
    spec: Annotated[
        IgnitionSyncSpec,
        describe("The source, and how it is delivered to the gateways that name this resource."),
    ]
    status: Annotated[SyncStatus | None, describe("Progress of the sync; written by the controller.")] = None


class IgnitionSyncBaseSpec(InheritableSpec):
    """Fields that several IgnitionSync resources have in common."""

    git: Annotated[
        GitAccessSpec | None,
        describe("Access to the git server; each resource sets its own repository and ref."),
    ] = None
    storage: _StorageField = None
    shared: _SharedField = None
    additional_files: _AdditionalFilesField = None


class IgnitionSyncBase(CustomResource):
    """Settings that IgnitionSync resources inherit through spec.inheritsFrom."""

    api_version: Literal["sync.ignition.io/v1alpha1"] = declared_default("sync.ignition.io/v1alpha1")
    kind: Literal["IgnitionSyncBase"] = declared_default("IgnitionSyncBase")
    spec: Annotated[IgnitionSyncBaseSpec, describe("The settings that are inherited.")]
