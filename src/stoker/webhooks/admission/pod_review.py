"""Reviews a pod: injects an agent if the pod asks for it, and reports the result.

`stoker.webhooks.admission.inject` decides; this module looks up what that needs. It reports every attempt
by a log line, an Event, and a warning to the creator of the pod. A pod whose injection is refused is
admitted unchanged, because a wrong resource must not stop gateways, unless the installation requires that
no gateway starts without its agent (`deny_refused`). A dry run gets the same response, but no Event and
no metric.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.api.to_intent.annotations.annotations import pod_settings
from stoker.api.to_intent.pod_facts import PodFacts
from stoker.domain.errors import Stalled
from stoker.domain.reasons import Reason
from stoker.kube.client.errors import ApiError
from stoker.kube.events.recorder import EventRecorder
from stoker.kube.events.series import ObjectRef
from stoker.telemetry.logs import get_logger
from stoker.telemetry.metrics import Metrics
from stoker.webhooks.admission.inject import Injection, InjectionRules, asks_for_agent, build_injection
from stoker.webhooks.admission.lookups import AdmissionLookup
from stoker.webhooks.admission.pod_model import AdmittedPod, read_pod
from stoker.webhooks.admission.pod_owner import OwnerCandidate, choose_owner
from stoker.webhooks.admission.reviews import AdmissionRequest, AdmissionVerdict

log = get_logger(__name__)


@dataclass(slots=True)
class _InjectionAttempt:
    """One pod, and what is known of it so far."""

    pod: AdmittedPod
    facts: PodFacts
    dry_run: bool
    resource: OwnerCandidate | None = None

    @property
    def words(self) -> dict[str, object]:
        found = self.resource
        return {
            "pod": self.pod.shown,
            "namespace": self.facts.namespace,
            "kind": found.kind.name if found else "",
            "resource": found.name if found else "",
            **({"dry_run": True} if self.dry_run else {}),
        }

    @property
    def about(self) -> ObjectRef | None:
        """The object of an Event: the resource, else the pod's owner; the pod itself does not exist yet."""
        if self.resource is None:
            return self.pod.maker(self.facts.namespace)
        metadata = self.resource.header.metadata
        kind = self.resource.kind
        return ObjectRef(kind.api_version, kind.name, metadata.name, metadata.namespace, metadata.uid)


class PodInjector:
    """Reviews pods."""

    def __init__(
        self,
        look_up: AdmissionLookup,
        rules: InjectionRules,
        events: EventRecorder,
        metrics: Metrics,
        *,
        deny_refused: bool = False,
    ) -> None:
        self._look_up = look_up
        self._rules = rules
        self._events = events
        self._deny_refused = deny_refused
        self._attempts = metrics.counter(
            "ignition_sync_injections_total",
            "Pods that asked for an agent, by what became of it.",
            ("namespace", "cr", "result", "reason"),
        )

    async def review(self, review: AdmissionRequest) -> AdmissionVerdict:
        """Return the verdict on a pod; raises ApiError if the webhook's failurePolicy has to decide."""
        if review.kind.kind != "Pod" or review.operation != "CREATE" or review.sub_resource:
            return AdmissionVerdict()
        pod = read_pod(review.new or b"{}")
        facts = pod.facts(review.namespace)
        if not asks_for_agent(pod, facts):
            return AdmissionVerdict()
        attempt = _InjectionAttempt(pod, facts, dry_run=bool(review.dry_run))
        try:
            done = await self._inject(attempt)
        except ApiError as error:
            log.error("injection.failed", reason=error.reason, error=error.message, **attempt.words)
            self._count(attempt, "failed", error.reason)
            raise
        except Stalled as error:
            return self._refused(attempt, error)
        return self._injected(attempt, done)

    async def _inject(self, attempt: _InjectionAttempt) -> Injection:
        pod, facts = attempt.pod, attempt.facts
        settings = pod_settings(facts)
        candidates = await self._look_up.candidates(settings, facts.namespace)
        attempt.resource = choose_owner(settings, facts.namespace, candidates)
        intent = await self._look_up.intent(attempt.resource)
        return build_injection(pod, facts, settings, intent, self._rules)

    def _injected(self, attempt: _InjectionAttempt, done: Injection) -> AdmissionVerdict:
        # The agent checks whether the folder or profile exists, since either may be created later.
        log.info(
            "injection.done",
            gateway=done.gateway,
            digest=done.digest,
            notices=[notice.reason for notice in done.notices],
            content="checked by the agent",
            **attempt.words,
        )
        self._count(attempt, "injected", Reason.SIDECAR_INJECTED)
        if attempt.about is not None and not attempt.dry_run:
            message = f"an agent was put into pod {attempt.pod.shown}"
            self._events.normal(attempt.about, Reason.SIDECAR_INJECTED, message)
        return AdmissionVerdict(
            warnings=tuple(f"{one.reason}: {one.message}" for one in done.notices), patch=done.patch
        )

    def _refused(self, attempt: _InjectionAttempt, error: Stalled) -> AdmissionVerdict:
        log.warning("injection.refused", reason=error.reason, error=error.message, **attempt.words)
        self._count(attempt, "refused", error.reason)
        sentence = f"no agent is put into pod {attempt.pod.shown}: {error.message}"
        if attempt.about is not None and not attempt.dry_run:
            self._events.warning(attempt.about, error.reason, sentence)
        said = f"{error.reason}: {sentence}"
        return AdmissionVerdict(refusal=said) if self._deny_refused else AdmissionVerdict(warnings=(said,))

    def _count(self, attempt: _InjectionAttempt, result: str, reason: Reason) -> None:
        if not attempt.dry_run:
            cr = attempt.resource.name if attempt.resource else ""
            self._attempts.inc(namespace=attempt.facts.namespace, cr=cr, result=result, reason=reason)
