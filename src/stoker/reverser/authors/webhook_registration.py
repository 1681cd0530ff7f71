"""Keep the rules of the author webhook equal to the selected kinds.

The installation creates the `ValidatingWebhookConfiguration` with one webhook that names the reverser and has
no rules. This module applies the rules with a field manager of its own, and only when they differ. The
installation leaves these fields out of its manifests, so an upgrade does not touch them. `caBundle` belongs
to `stoker.http_server.tls.ca_bundle`.

Every replica runs this, and all replicas want the same rules, if not at the same moment. A replica writes its
own new rules at once; if it finds the rules changed, it waits a while, because another replica may have newer
information. It must never create the object, and never write before the first selection is known.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import StokerError
from stoker.http_server.tls.ca_bundle import VALIDATING
from stoker.kube.client.client import KubeClient
from stoker.kube.client.deadlines import wait_for_event
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import ApiResource
from stoker.kube.client.served_kinds import KindCatalog
from stoker.kube.runtime.backoff import Backoff
from stoker.kube.watch.reflector import Reflector
from stoker.kube.watch.store import ObjectKey
from stoker.reverser.authors.webhook_rules import (
    CONDITIONS,
    operations_in_rules,
    reviewed_operations,
    webhook_fields,
)
from stoker.reverser.selection.selection import Selection
from stoker.telemetry.logs import get_logger

WEBHOOK = "authors.configbutler.ai"
MANAGER = "stoker-reverser-authors"
SETTLE = 10.0
RECHECK_SECONDS = 300.0
BACKOFF = Backoff(base=0.5, ceiling=60.0, jitter=0.3)

_SELF_REVIEWS = ApiResource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)

log = get_logger(__name__)


class _MatchCondition(msgspec.Struct, frozen=True):
    name: str = ""
    expression: str = ""


class _CaptureWebhook(msgspec.Struct, rename="camel"):
    """The fields of the webhook that this module owns."""

    name: str = ""
    rules: list[dict[str, Any]] | None = None
    match_conditions: list[_MatchCondition] = []
    admission_review_versions: list[str] | None = None
    failure_policy: str = ""
    match_policy: str = ""
    side_effects: str = ""
    timeout_seconds: int = 0


class _CaptureMetadata(msgspec.Struct):
    uid: str = ""


class _CaptureConfiguration(msgspec.Struct):
    metadata: _CaptureMetadata = msgspec.field(default_factory=_CaptureMetadata)
    webhooks: list[_CaptureWebhook] | None = None


class _FoundWebhook(NamedTuple):
    """The author webhook, and the uid of the object that holds it."""

    uid: str
    webhook: _CaptureWebhook


class WebhookRegistration:
    """Maintains the rules of one webhook. `capture` sets the selection; `run` applies it."""

    def __init__(self, client: KubeClient, name: str, *, clock: Clock | None = None) -> None:
        self._client = client
        self._name = name
        self._clock = clock or SystemClock()
        self._wake = asyncio.Event()
        self._own_user = ""
        self._wanted: tuple[Selection, KindCatalog] | None = None
        self._news = False
        self._differs_since: float | None = None
        self._failures = 0
        self._said = ""
        self._watched: Reflector[_CaptureConfiguration] = Reflector(
            client,
            VALIDATING,
            fields=f"metadata.name={name}",
            keep=msgspec.json.Decoder(_CaptureConfiguration).decode,
            on_change=lambda _: self._wake.set(),
            clock=self._clock,
        )

    def capture(self, selection: Selection, catalog: KindCatalog) -> None:
        """Set the selection whose kinds are reviewed."""
        before, self._wanted = self._wanted, (selection, catalog)
        if before is None or _desired_webhook(*before) != _desired_webhook(selection, catalog):
            self._news = True
            self._wake.set()

    @property
    def in_place(self) -> bool:
        """Whether the webhook in the cluster has the wanted fields."""
        found = self._found()
        return (
            found is not None and self._wanted is not None and not _needs_update(found, self._fields(found))
        )

    async def run(self) -> None:
        """Apply the wanted fields whenever they differ, until cancelled."""
        self._own_user = await self._who_we_are()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watched.run(), name="webhook configuration")
            while True:
                await wait_for_event(self._wake, self._clock, await self._turn())
                self._wake.clear()

    async def _turn(self) -> float:
        """Compare once, and write if it is time; return how long to wait."""
        found = self._found()
        if found is None or self._wanted is None:
            self._say_what_is_missing()
            return RECHECK_SECONDS
        fields = self._fields(found)
        if not _needs_update(found, fields):
            self._settled()
            return RECHECK_SECONDS
        now = self._clock.monotonic()
        self._differs_since = now if self._differs_since is None else self._differs_since
        wait = self._differs_since + SETTLE - now
        if wait > 0 and not self._news:
            return wait
        return await self._applied(found, fields)

    async def _applied(self, found: _FoundWebhook, fields: dict[str, Any]) -> float:
        body = {
            "apiVersion": VALIDATING.api_version,
            "kind": VALIDATING.kind,
            # The uid prevents this apply from re-creating an object that was deleted meanwhile.
            "metadata": {"name": self._name, "uid": found.uid},
            "webhooks": [{"name": WEBHOOK, **fields}],
        }
        try:
            await self._client.apply(VALIDATING, body, self._name, manager=MANAGER, into=ObjectHeader)
        except StokerError as error:
            self._failures += 1
            log.warning("capture.failed", name=self._name, reason=error.reason, error=error.message)
            return BACKOFF.delay(self._failures)
        self._settled()
        log.info("capture.asked_for", name=self._name, kinds=len(operations_in_rules(fields["rules"])))
        return RECHECK_SECONDS

    def _settled(self) -> None:
        self._news, self._differs_since, self._failures = False, None, 0

    def _found(self) -> _FoundWebhook | None:
        """Return the author webhook as it is in the cluster."""
        found = self._watched.store.get(ObjectKey("", self._name))
        webhooks = (found.webhooks or ()) if found is not None else ()
        ours = next((each for each in webhooks if each.name == WEBHOOK), None)
        return None if found is None or ours is None else _FoundWebhook(found.metadata.uid, ours)

    def _fields(self, found: _FoundWebhook) -> dict[str, Any]:
        """Return the wanted fields; rules of a group that discovery cannot describe stay as they are."""
        if self._wanted is None:
            return {}
        selection, catalog = self._wanted
        hidden = {each.api_version.rpartition("/")[0] for each in catalog.unavailable}
        kept = (each for each in operations_in_rules(found.webhook.rules or ()) if each.group in hidden)
        return webhook_fields({*reviewed_operations(selection, catalog), *kept}, selection, self._own_user)

    def _say_what_is_missing(self) -> None:
        said = "" if not self._watched.health.synced or self._found() else self._name
        if said and said != self._said:
            log.warning("capture.unasked", name=said, missing=f"its webhook {WEBHOOK}")
        self._said = said

    async def _who_we_are(self) -> str:
        """Return the reverser's own user name, so that its own requests cause no reviews."""
        failures = 0
        while True:
            try:
                body = {"apiVersion": _SELF_REVIEWS.api_version, "kind": _SELF_REVIEWS.kind}
                answer = await self._client.create(_SELF_REVIEWS, body, into=dict[str, Any])
                return str(answer["status"]["userInfo"]["username"])
            except (KeyError, TypeError):
                return ""
            except StokerError as error:
                failures += 1
                if failures == 1:
                    log.warning("capture.nameless", reason=error.reason, error=error.message)
                if failures >= 3:
                    return ""
                await self._clock.sleep(BACKOFF.delay(failures))


def _desired_webhook(selection: Selection, catalog: KindCatalog) -> dict[str, Any]:
    return webhook_fields(reviewed_operations(selection, catalog), selection, "")


def _needs_update(found: _FoundWebhook, fields: dict[str, Any]) -> bool:
    """Return whether the webhook must be written. Conditions that other people added stay."""
    wanted = msgspec.convert({"name": WEBHOOK, **fields}, _CaptureWebhook)
    conditions = {each.name: each for each in found.webhook.match_conditions}
    ours = [conditions[name] for name in CONDITIONS if name in conditions]
    # The API server stores no empty list: missing rules equal an empty list.
    seen = msgspec.structs.replace(found.webhook, match_conditions=ours, rules=found.webhook.rules or [])
    return seen != wanted
