"""What objects of every kind have in common: metadata, references, conditions, selectors.

Times are kept as the text the API server sent (`domain.clock` reads and writes
them): an object that is decoded and encoded again is the same object.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from stoker.api.field_docs import Block, FieldRule, about, entries, items, matching, text
from stoker.api.scalars import DataKey, Generation, NamespaceName, ObjectName, Timestamp


class OwnerReference(Block):
    """The object that this one goes away with."""

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
    """One aspect of the state of a resource."""

    type: Annotated[
        str,
        text(
            316,
            matching(r"[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?", "must be a condition type such as Ready"),
        ),
        about("What the condition is about, such as Ready."),
    ]
    status: Annotated[ConditionStatus, about("True, False or Unknown.")]
    reason: Annotated[
        str,
        text(
            1024,
            matching(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", "must be one word such as SyncFailed"),
            least=1,
        ),
        about("One word for machines: why the condition has this status."),
    ]
    message: Annotated[str, text(32768), about("A sentence for people; it may be empty.")]
    last_transition_time: Annotated[Timestamp, about("When the status last changed.")]
    observed_generation: Annotated[
        Generation | None, about("The generation of the resource that this condition speaks about.")
    ] = None


ConditionList = Annotated[tuple[Condition, ...], items(64, keyed_by=("type",))]


class SecretKeyRef(Block):
    """One key of a Secret in the namespace of the resource."""

    name: Annotated[ObjectName, about("Name of the Secret, in the namespace of this resource.")]
    key: Annotated[DataKey, about("Key in the data of the Secret.")]


class LocalRef(Block):
    """An object in the namespace of the resource, by name."""

    name: Annotated[ObjectName, about("Name of the object, in the namespace of this resource.")]


class NamespacedRef(Block):
    """An object by name and namespace; without a namespace, the one of the resource itself."""

    name: Annotated[ObjectName, about("Name of the object.")]
    namespace: Annotated[
        NamespaceName | None, about("Namespace of the object. Default: the namespace of this resource.")
    ] = None


class ExplicitRef(Block):
    """An object by name and namespace, where there is no namespace to fall back to."""

    name: Annotated[ObjectName, about("Name of the object.")]
    namespace: Annotated[NamespaceName, about("Namespace of the object; it must be written out.")]


_LabelKey = Annotated[str, text(317, least=1)]
_LabelValue = Annotated[str, text(63)]


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

    key: Annotated[_LabelKey, about("The label to look at.")]
    operator: Annotated[
        Literal["In", "NotIn", "Exists", "DoesNotExist"], about("How the label is compared with the values.")
    ]
    values: Annotated[
        Annotated[tuple[_LabelValue, ...], items(64)] | None,
        about("Values to compare with; only for the operators In and NotIn."),
    ] = None


class LabelSelector(Block):
    """Which labels an object must carry; everything that is given must hold."""

    match_labels: Annotated[
        Annotated[dict[str, _LabelValue], entries(64)] | None,
        about("Labels that must be there with exactly these values."),
    ] = None
    match_expressions: Annotated[
        Annotated[tuple[LabelRequirement, ...], items(64)] | None, about("Further conditions on labels.")
    ] = None
