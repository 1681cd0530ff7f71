"""Which objects are written to git: `WatchRule` and `ClusterWatchRule`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from stoker.api.field_docs import (
    Block,
    FieldRule,
    declared_default,
    describe,
    list_bounds,
    matches_pattern,
    text_bounds,
)
from stoker.api.kinds.resource import ConditionedStatus, CustomResource
from stoker.api.meta import ExplicitRef, LabelSelector, NamespacedRef

_ApiGroup = Annotated[
    str,
    text_bounds(
        253,
        matches_pattern(r"|[*]|[a-z0-9]([-.a-z0-9]*[a-z0-9])?", "must be an API group, * or empty for core"),
    ),
]
_ApiVersion = Annotated[
    str,
    text_bounds(63, matches_pattern(r"[*]|[a-z][a-z0-9]*", "must be a version such as v1, or *"), least=1),
]
_RuleResourceName = Annotated[
    str,
    text_bounds(
        317,
        matches_pattern(
            r"[*]|[a-z0-9]([-.a-z0-9]*[a-z0-9])?(/[a-z0-9]+)?",
            "must be a plural name such as deployments, deployments.apps, deployments/scale, or * alone; "
            "prefixes such as deploy* are not possible",
        ),
        least=1,
    ),
]


class ResourceRule(Block):
    """One selection of objects."""

    resources: Annotated[
        Annotated[tuple[_RuleResourceName, ...], list_bounds(64, least=1)],
        describe(
            "Plural names, also as plural.group; * selects everything, but only where the installation "
            "watches all."
        ),
    ]
    operations: Annotated[
        Annotated[tuple[Literal["CREATE", "UPDATE", "DELETE", "*"], ...], list_bounds(4)] | None,
        describe(
            "Changes that are written: CREATE or UPDATE writes created and updated objects, DELETE removes "
            "the files of deleted ones. Empty or *: all."
        ),
    ] = None
    api_groups: Annotated[
        Annotated[tuple[_ApiGroup, ...], list_bounds(64)] | None,
        describe('API groups of the resources; "" is core. Empty or *: all.'),
    ] = None
    api_versions: Annotated[
        Annotated[tuple[_ApiVersion, ...], list_bounds(64)] | None,
        describe("Versions of the resources. Empty or *: the one that the API server prefers."),
    ] = None
    label_selector: Annotated[LabelSelector | None, describe("Only objects with these labels.")] = None


class WatchRuleSpec(Block):
    """Objects of the rule's own namespace to write, and their destination."""

    destination_ref: Annotated[NamespacedRef, describe("The GitDestination to write to.")]
    rules: Annotated[
        Annotated[tuple[ResourceRule, ...], list_bounds(32, least=1)],
        describe("Selections of objects; an object is written if one of them matches."),
    ]


class WatchRule(CustomResource):
    """Writes objects of its own namespace to git."""

    api_version: Literal["configbutler.ai/v1alpha1"] = declared_default("configbutler.ai/v1alpha1")
    kind: Literal["WatchRule"] = declared_default("WatchRule")
    spec: Annotated[WatchRuleSpec, describe("Objects of this namespace to write, and their destination.")]
    status: Annotated[
        ConditionedStatus | None,
        describe("Whether the objects are watched and written; written by the reverser."),
    ] = None


class ClusterResourceRule(ResourceRule):
    """One selection of objects anywhere in the cluster."""

    RULES: ClassVar[tuple[FieldRule, ...]] = (
        FieldRule(
            "self.scope == 'Namespaced' || !has(self.namespaceSelector)",
            "namespaceSelector is possible only with scope Namespaced",
            lambda it: it.scope == "Namespaced" or it.namespace_selector is None,
            at="namespaceSelector",
        ),
    )

    scope: Annotated[
        Literal["Cluster", "Namespaced"],
        describe("Cluster selects objects without a namespace, Namespaced selects objects in namespaces."),
    ]
    namespace_selector: Annotated[
        LabelSelector | None, describe("Only objects in namespaces with these labels; for scope Namespaced.")
    ] = None


class ClusterWatchRuleSpec(Block):
    """Objects of the whole cluster to write, and their destination."""

    destination_ref: Annotated[ExplicitRef, describe("The GitDestination to write to.")]
    rules: Annotated[
        Annotated[tuple[ClusterResourceRule, ...], list_bounds(32, least=1)],
        describe("Selections of objects; an object is written if one of them matches."),
    ]


class ClusterWatchRule(CustomResource):
    """Writes objects without a namespace, or of all namespaces, to git."""

    api_version: Literal["configbutler.ai/v1alpha1"] = declared_default("configbutler.ai/v1alpha1")
    kind: Literal["ClusterWatchRule"] = declared_default("ClusterWatchRule")
    spec: Annotated[ClusterWatchRuleSpec, describe("Objects of the cluster to write, and their destination.")]
    status: Annotated[
        ConditionedStatus | None,
        describe("Whether the objects are watched and written; written by the reverser."),
    ] = None
