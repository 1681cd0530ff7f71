"""Which objects are written to git: `WatchRule` and `ClusterWatchRule`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from stoker.api.field_docs import Block, FieldRule, about, declared, items, matching, text
from stoker.api.kinds.resource import ConditionedStatus, CustomResource
from stoker.api.meta import ExplicitRef, LabelSelector, NamespacedRef

_ApiGroup = Annotated[
    str,
    text(253, matching(r"|[*]|[a-z0-9]([-.a-z0-9]*[a-z0-9])?", "must be an API group, * or empty for core")),
]
_ApiVersion = Annotated[
    str, text(63, matching(r"[*]|[a-z][a-z0-9]*", "must be a version such as v1, or *"), least=1)
]
_RuleResourceName = Annotated[
    str,
    text(
        317,
        matching(
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
        Annotated[tuple[_RuleResourceName, ...], items(64, least=1)],
        about(
            "Plural names, also as plural.group; * selects everything, but only where the installation "
            "watches all."
        ),
    ]
    operations: Annotated[
        Annotated[tuple[Literal["CREATE", "UPDATE", "DELETE", "*"], ...], items(4)] | None,
        about(
            "Changes that are written: creating or updating an object needs CREATE or UPDATE, deleting its "
            "file needs "
            "DELETE. Empty or *: all."
        ),
    ] = None
    api_groups: Annotated[
        Annotated[tuple[_ApiGroup, ...], items(64)] | None,
        about('API groups of the resources; "" is core. Empty or *: all.'),
    ] = None
    api_versions: Annotated[
        Annotated[tuple[_ApiVersion, ...], items(64)] | None,
        about("Versions of the resources. Empty or *: the one that the API server prefers."),
    ] = None
    label_selector: Annotated[LabelSelector | None, about("Only objects with these labels.")] = None


class WatchRuleSpec(Block):
    """Objects of the rule's own namespace, and where they are written."""

    destination_ref: Annotated[NamespacedRef, about("The GitDestination to write to.")]
    rules: Annotated[
        Annotated[tuple[ResourceRule, ...], items(32, least=1)],
        about("Objects that one of these selects are written."),
    ]


class WatchRule(CustomResource):
    """Writes objects of its own namespace to git."""

    api_version: Literal["configbutler.ai/v1alpha1"] = declared("configbutler.ai/v1alpha1")
    kind: Literal["WatchRule"] = declared("WatchRule")
    spec: Annotated[WatchRuleSpec, about("Objects of this namespace, and where they are written.")]
    status: Annotated[
        ConditionedStatus | None,
        about("Whether the objects are watched and written; written by the reverser."),
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
        Literal["Cluster", "Namespaced"], about("Whether objects without or within a namespace are meant.")
    ]
    namespace_selector: Annotated[
        LabelSelector | None, about("Only objects in namespaces with these labels; for scope Namespaced.")
    ] = None


class ClusterWatchRuleSpec(Block):
    """Objects anywhere in the cluster, and where they are written."""

    destination_ref: Annotated[ExplicitRef, about("The GitDestination to write to.")]
    rules: Annotated[
        Annotated[tuple[ClusterResourceRule, ...], items(32, least=1)],
        about("Objects that one of these selects are written."),
    ]


class ClusterWatchRule(CustomResource):
    """Writes objects without a namespace, or of all namespaces, to git."""

    api_version: Literal["configbutler.ai/v1alpha1"] = declared("configbutler.ai/v1alpha1")
    kind: Literal["ClusterWatchRule"] = declared("ClusterWatchRule")
    spec: Annotated[ClusterWatchRuleSpec, about("Objects of the cluster, and where they are written.")]
    status: Annotated[
        ConditionedStatus | None,
        about("Whether the objects are watched and written; written by the reverser."),
    ] = None
