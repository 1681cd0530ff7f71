"""Decides which alerts a target gets, by the names in `spec.alerting.webhooks[].on`. Pure.

A name is a reason as in Events and conditions, in any letter case. Alias names and condition types mean
the reasons in `ALIASES`. A target without names gets every Warning, and a pause.
"""

from __future__ import annotations

from stoker.controller.alerting.alerts import Alert, AlertSeverity
from stoker.domain.intent.delivery import AlertKind, AlertTarget
from stoker.domain.reasons import ConditionType as Type
from stoker.domain.reasons import Reason

_ROLLED_BACK = (Reason.AUTO_ROLLBACK, Reason.SCAN_FAILURE_AUTO_ROLLBACK)

ALIASES: dict[str, tuple[Reason, ...]] = {
    "ScanFailure": (Reason.SCAN_FAILURE_AUTO_ROLLBACK, Reason.NOT_VERIFIED, Reason.GATEWAY_ERROR),
    "ProjectLoadError": (Reason.NOT_VERIFIED, Reason.AUTO_ROLLBACK),
    "ConfigError": (Reason.NOT_VERIFIED, Reason.AUTO_ROLLBACK),
    Reason.AUTO_ROLLBACK: _ROLLED_BACK,
    Type.AUTO_ROLLBACK_PERFORMED: _ROLLED_BACK,
    "InjectionFailed": (Reason.SIDECAR_MISSING,),
    Type.SIDECAR_INJECTED: (Reason.SIDECAR_MISSING,),
    "CanaryFailed": (Reason.CANARY_STAGE_FAILED,),
    Type.DRIFT_DETECTED: (Reason.GATEWAY_FILES_MODIFIED,),
    Type.PENDING_APPROVAL: (Reason.PENDING_APPROVAL, Reason.PLAN_PENDING),
    Type.REF_SKEW: (Reason.REF_SKEW_DETECTED,),
    Type.AGENT_READY: (Reason.AGENT_UNREACHABLE,),
    Type.VERIFIED: (Reason.NOT_VERIFIED,),
    "Pause": (Reason.PAUSED,),
}
_REASONS_BY_ALIAS = {
    name.casefold(): frozenset(reason.casefold() for reason in reasons) for name, reasons in ALIASES.items()
}

_RESOLVABLE_KINDS = (AlertKind.PAGERDUTY, AlertKind.WEBHOOK)


def is_wanted(target: AlertTarget, alarm: Alert) -> bool:
    if not target.on:
        return alarm.severity is not AlertSeverity.INFO
    words = alarm.words
    return any(
        words & _REASONS_BY_ALIAS.get(name.casefold(), frozenset({name.casefold()})) for name in target.on
    )


def sends_resolved(target: AlertTarget) -> bool:
    """Whether a target gets resolved incidents: systems that track open incidents do, chats do not."""
    return target.kind in _RESOLVABLE_KINDS
