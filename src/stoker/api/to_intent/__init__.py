"""Translates every kind of custom resource into one intent.

Every kind that keeps gateways in sync goes through these four functions; code that imports
this package does not need to know the kind. To add a kind, write a class with the methods of
`KindAdapter` and add it to `_ADAPTERS`.

    base_ref(resource)                   the base to look up first, if any
    merge_spec(resource, …)              the resource merged with everything that it inherits
    intent_for(settled)                  the operator's work for the resource
    gateway_intent_for(settled, pod, …)  the files of one gateway

An agent receives a merged resource and begins with `SettledResource(resource)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from stoker.api.kinds.ignitionsync import IgnitionSync, IgnitionSyncBase, IgnitionSyncBaseSpec
from stoker.api.kinds.resource import CustomResource
from stoker.api.kinds.stoker import Stoker
from stoker.api.meta import NamespacedRef
from stoker.api.to_intent.ignitionsync import IgnitionSyncAdapter
from stoker.api.to_intent.pod_facts import PodFacts
from stoker.api.to_intent.stoker import StokerAdapter
from stoker.api.to_intent.types import IntentContext, SettledResource
from stoker.domain.errors import InvalidValue
from stoker.domain.intent.intent import GatewayIntent, ResourceIntent

__all__ = [
    "MODELS",
    "NO_DEFAULTS",
    "IntentContext",
    "KindAdapter",
    "PodFacts",
    "SettledResource",
    "base_ref",
    "gateway_intent_for",
    "intent_for",
    "merge_spec",
]

R = TypeVar("R", bound=CustomResource)

NO_DEFAULTS = IgnitionSyncBaseSpec()
NO_SURROUNDINGS = IntentContext()


class KindAdapter(Protocol[R]):
    """The translation of one kind."""

    def wanted_base(self, resource: R) -> NamespacedRef | None:
        """Return the base that the resource names, with its namespace."""
        ...

    def settle(
        self, resource: R, base: IgnitionSyncBase | None, defaults: IgnitionSyncBaseSpec
    ) -> SettledResource[R]:
        """Return the resource after the merge; raise an error that names what is missing."""
        ...

    def resource_intent(self, known: SettledResource[R]) -> ResourceIntent: ...

    def gateway_intent(self, resource: R, pod: PodFacts, around: IntentContext) -> GatewayIntent: ...


# The key determines the resource type of each adapter, which the type of a mapping cannot express.
_ADAPTERS: Mapping[type[CustomResource], KindAdapter[Any]] = {
    IgnitionSync: IgnitionSyncAdapter(),
    Stoker: StokerAdapter(),
}

MODELS: tuple[type[CustomResource], ...] = tuple(_ADAPTERS)
"""The kinds that keep gateways in sync."""


def base_ref(resource: CustomResource) -> NamespacedRef | None:
    return _adapter(resource).wanted_base(resource)


def merge_spec(
    resource: R, *, base: IgnitionSyncBase | None = None, defaults: IgnitionSyncBaseSpec = NO_DEFAULTS
) -> SettledResource[R]:
    return _adapter(resource).settle(resource, base, defaults)


def intent_for(known: SettledResource[R]) -> ResourceIntent:
    return _adapter(known.resource).resource_intent(known)


def gateway_intent_for(
    known: SettledResource[R], pod: PodFacts, around: IntentContext = NO_SURROUNDINGS
) -> GatewayIntent:
    return _adapter(known.resource).gateway_intent(known.resource, pod, around)


def _adapter(resource: CustomResource) -> KindAdapter[Any]:
    adapter = _ADAPTERS.get(type(resource))
    if adapter is None:
        raise InvalidValue(f"a {type(resource).__name__} does not sync gateways")
    return adapter
