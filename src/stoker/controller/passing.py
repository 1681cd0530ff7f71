"""One pass over one resource, as a list of steps.

    read        the resource as its type, or say which field is wrong
    understand  what it means, whatever its kind, with all that it inherits
    resolve     the ref to a commit, let in by what the Secrets hold now
    look for    the gateway's key, without which no agent could finish its work

Each step returns the context with one more thing known, or raises what must
happen next. None writes status: `stoker.controller.summarizing` makes it of what
the steps found. The last step comes after the ref is resolved on purpose: a key
that is missing must not keep the fleet from learning the commit.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TypeVar

from stoker.api.adapters import intent_for, settle
from stoker.api.blocks.status import SyncStatus
from stoker.api.kinds.resource import Resource as Model
from stoker.controller.features import not_in_effect
from stoker.controller.observing import SYNCED_KINDS, Kept, Observed, ResourceKey, read
from stoker.controller.secrets import SecretReader
from stoker.domain.intent.intents import ResourceIntent
from stoker.domain.refs import CommitId
from stoker.git.access import Access
from stoker.git.github_app import AppTokens
from stoker.git.remote import Remote
from stoker.git.resolving import resolve
from stoker.git.runner import GitRunner
from stoker.kube.client import Client
from stoker.kube.stepping import Enough, Step

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Context:
    """What is known of a resource so far."""

    key: ResourceKey
    kept: Kept
    status: SyncStatus
    resource: Model | None = None
    idle_fields: tuple[str, ...] = ()
    intent: ResourceIntent | None = None
    commit: CommitId | None = None


class Steps:
    """The steps and what they need of the world."""

    def __init__(
        self,
        observed: Observed,
        client: Client,
        git: GitRunner,
        apps: AppTokens,
        *,
        require_known_hosts: bool = False,
    ) -> None:
        self._observed = observed
        self._client = client
        self._git = git
        self._apps = apps
        self._require_known_hosts = require_known_hosts

    def listed(self) -> tuple[Step[Context], ...]:
        return (
            Step("read", self._read),
            Step("understand", self._understand),
            Step("resolve", self._resolve),
            Step("look for the gateway's key", self._look_for_gateway_key),
        )

    async def _read(self, context: Context) -> Context:
        resource = read(context.kept, SYNCED_KINDS[context.key.kind].model)
        return dataclasses.replace(context, resource=resource, idle_fields=not_in_effect(resource))

    async def _understand(self, context: Context) -> Context | Enough[Context]:
        resource = _known(context.resource)
        intent = intent_for(settle(resource, base=self._observed.base_for(resource)))
        understood = dataclasses.replace(context, intent=intent)
        return Enough(understood) if intent.paused else understood

    async def _resolve(self, context: Context) -> Context:
        source = _known(context.intent).source
        secrets = SecretReader(self._client, context.key.object.namespace)

        async def access() -> Access:
            return await secrets.access(source, self._apps, require_known_hosts=self._require_known_hosts)

        commit = await resolve(Remote(self._git, source.url, access), source.ref)
        return dataclasses.replace(context, commit=commit)

    async def _look_for_gateway_key(self, context: Context) -> Context:
        wanted = _known(context.intent).policies.access.api_key
        if wanted is not None:
            await SecretReader(self._client, context.key.object.namespace).value(wanted)
        return context


def _known(value: T | None) -> T:
    """What an earlier step has found; the order of the steps is what makes it so."""
    if value is None:
        raise AssertionError("a step was taken before the one that it builds on")
    return value
