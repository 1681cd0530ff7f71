"""Translates every kind of custom resource into one intent.

A resource of any kind that asks for gateways to be kept in sync goes through
these four functions; nothing that imports this package needs to know which kind
it was. A further kind is one class with the methods of `KindAdapter` and one line in
`_ADAPTERS`.

    base_wanted_by(resource)             the object to look up first, if any
    settle(resource, …)                  the resource with all that it inherits
    intent_for(settled)                  what the operator does for it
    gateway_intent_for(settled, pod, …)  what one gateway's files must be

An agent receives a settled resource and begins with `SettledResource(resource)`.
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
    """What is to be known about one kind."""

    def wanted_base(self, resource: R) -> NamespacedRef | None:
        """The base that the resource names, with its namespace."""
        ...

    def settle(
        self, resource: R, base: IgnitionSyncBase | None, defaults: IgnitionSyncBaseSpec
    ) -> SettledResource[R]:
        """The resource after the merge, or an error that says what is missing."""
        ...

    def resource_intent(self, known: SettledResource[R]) -> ResourceIntent: ...

    def gateway_intent(self, resource: R, pod: PodFacts, around: IntentContext) -> GatewayIntent: ...


# Which resource each adapter takes follows from its key, which a mapping's type cannot express.
_ADAPTERS: Mapping[type[CustomResource], KindAdapter[Any]] = {
    IgnitionSync: IgnitionSyncAdapter(),
    Stoker: StokerAdapter(),
}

MODELS: tuple[type[CustomResource], ...] = tuple(_ADAPTERS)
"""The kinds that ask for gateways to be kept in sync."""


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
        raise InvalidValue(f"a {type(resource).__name__} does not keep gateways in sync")
    return adapter
