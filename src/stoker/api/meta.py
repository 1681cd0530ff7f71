"""Parts that several kinds share: metadata, references, conditions, selectors.

Times stay the text that the API server sent (`stoker.domain.clock` parses and formats
them), so that decoding and encoding an object does not change it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from stoker.api.field_docs import (
    Block,
    FieldRule,
    describe,
    list_bounds,
    map_bounds,
    matches_pattern,
    text_bounds,
)
from stoker.api.scalars import DataKey, Generation, NamespaceName, ObjectName, Timestamp


class OwnerReference(Block):
    """An owner of this object; the garbage collector deletes the object after its owner."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Block):
    """The part of `metadata` that the product reads or writes; the server owns the rest."""

    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: tuple[str, ...] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


ConditionStatus = Literal["True", "False", "Unknown"]


class Condition(Block):
    """A condition of a resource."""

    type: Annotated[
        str,
        text_bounds(
            316,
            matches_pattern(
                r"[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?", "must be a condition type such as Ready"
            ),
        ),
        describe("What the condition is about, such as Ready."),
    ]
    status: Annotated[ConditionStatus, describe("True, False or Unknown.")]
    reason: Annotated[
        str,
        text_bounds(
            1024,
            matches_pattern(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", "must be one word such as SyncFailed"),
            least=1,
        ),
        describe("Machine-readable reason for the status, one CamelCase word."),
    ]
    message: Annotated[str, text_bounds(32768), describe("Human-readable message; may be empty.")]
    last_transition_time: Annotated[Timestamp, describe("When the status last changed.")]
    observed_generation: Annotated[
        Generation | None, describe("The generation of the resource that this condition describes.")
    ] = None


ConditionList = Annotated[tuple[Condition, ...], list_bounds(64, keyed_by=("type",))]


class SecretKeyRef(Block):
    """One key of a Secret in the namespace of the resource."""

    name: Annotated[ObjectName, describe("Name of the Secret, in the namespace of this resource.")]
    key: Annotated[DataKey, describe("Key in the data of the Secret.")]


class LocalRef(Block):
    """An object in the namespace of the resource, by name."""

    name: Annotated[ObjectName, describe("Name of the object, in the namespace of this resource.")]


class NamespacedRef(Block):
    """An object by name and namespace; without a namespace, the one of the resource itself."""

    name: Annotated[ObjectName, describe("Name of the object.")]
    namespace: Annotated[
        NamespaceName | None, describe("Namespace of the object. Default: the namespace of this resource.")
    ] = None


class ExplicitRef(Block):
    """An object by name and namespace, for resources that have no namespace of their own."""

    name: Annotated[ObjectName, describe("Name of the object.")]
    namespace: Annotated[NamespaceName, describe("Namespace of the object; required.")]


_LabelKey = Annotated[str, text_bounds(317, least=1)]
_LabelValue = Annotated[str, text_bounds(63)]


class LabelRequirement(Block):
    """One condition on a label."""

    RULES: ClassVar[tuple[FieldRule, ...]] = (
        FieldRule(
            "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0"
            " : !has(self.values) || size(self.values) == 0",
            "values must be given with the operators In and NotIn, and only with them",
            lambda it: (it.operator in ("In", "NotIn")) == bool(it.values),
            at="values",
        ),
    )

    key: Annotated[_LabelKey, describe("Key of the label.")]
    operator: Annotated[
        Literal["In", "NotIn", "Exists", "DoesNotExist"],
        describe("How the label is compared with the values."),
    ]
    values: Annotated[
        Annotated[tuple[_LabelValue, ...], list_bounds(64)] | None,
        describe("Values to compare with; only for the operators In and NotIn."),
    ] = None


class LabelSelector(Block):
    """Labels that an object must have; all requirements must be met."""

    match_labels: Annotated[
        Annotated[dict[str, _LabelValue], map_bounds(64)] | None,
        describe("Labels that must be present with exactly these values."),
    ] = None
    match_expressions: Annotated[
        Annotated[tuple[LabelRequirement, ...], list_bounds(64)] | None,
        describe("Additional requirements on labels."),
    ] = None
