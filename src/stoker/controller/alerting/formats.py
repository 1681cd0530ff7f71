"""Formats an alert as each service documents it. Pure.

Slack and Teams get a message for people, PagerDuty an event of its Events API v2, and a plain webhook our own
JSON, which docs/delivery.md shows. Texts are cut to the documented limits: a service rejects the whole
message if one text is too long.
"""

from __future__ import annotations

from typing import Any

from stoker.controller.alerting.alerts import Alert, AlertSeverity
from stoker.domain.clock import rfc3339
from stoker.domain.intent.delivery import AlertKind
from stoker.domain.secrets import Secret
from stoker.domain.text import truncate

VERSION = "1"
SLACK_HEADER = 150
SLACK_TEXT = 3000
PAGERDUTY_SUMMARY = 1024
TEAMS_TEXT = 8000  # of the 28 KB of a whole message, even with three bytes a character
WEBHOOK_TEXT = 32_000

_ADAPTIVE = "application/vnd.microsoft.card.adaptive"
_COLORS = {AlertSeverity.ERROR: "Attention", AlertSeverity.WARNING: "Warning", AlertSeverity.INFO: "Default"}


def alert_body(kind: AlertKind, alarm: Alert, *, over: bool, key: Secret) -> dict[str, Any]:
    """The JSON body of a request; `key` is for PagerDuty, which expects its secret in the body."""
    if kind is AlertKind.SLACK:
        return _slack(alarm)
    if kind is AlertKind.TEAMS:
        return _teams(alarm)
    if kind is AlertKind.PAGERDUTY:
        return _pagerduty(alarm, over, key)
    return _webhook(alarm, over)


def _slack(alarm: Alert) -> dict[str, Any]:
    """`text` is shown in notifications; Slack requires only three characters in it to be escaped."""
    where = truncate(_escaped(_where(alarm)), SLACK_TEXT)
    return {
        "text": truncate(_escaped(f"{alarm.incident.reason}: {_where(alarm)}: {alarm.message}"), SLACK_TEXT),
        "blocks": [
            {
                "type": "header",
                "text": {"type": "plain_text", "text": truncate(_title(alarm), SLACK_HEADER), "emoji": False},
            },
            {
                "type": "section",
                "text": {"type": "mrkdwn", "text": truncate(_escaped(alarm.message) or "…", SLACK_TEXT)},
            },
            {"type": "context", "elements": [{"type": "mrkdwn", "text": where}]},
        ],
    }


def _teams(alarm: Alert) -> dict[str, Any]:
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            {
                "type": "TextBlock",
                "text": truncate(_title(alarm), SLACK_HEADER),
                "weight": "Bolder",
                "size": "Medium",
                "color": _COLORS[alarm.severity],
                "wrap": True,
            },
            {"type": "TextBlock", "text": truncate(alarm.message, TEAMS_TEXT), "wrap": True},
            {"type": "FactSet", "facts": [{"title": name, "value": value} for name, value in _facts(alarm)]},
        ],
    }
    attachment = {"contentType": _ADAPTIVE, "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _pagerduty(alarm: Alert, over: bool, key: Secret) -> dict[str, Any]:
    head = {"routing_key": key.reveal(), "dedup_key": alarm.key}
    if over:
        return {**head, "event_action": "resolve"}
    summary = f"{alarm.incident.reason}: {_where(alarm)}: {alarm.message}"
    payload = {
        "summary": truncate(summary, PAGERDUTY_SUMMARY),
        "source": truncate(_where(alarm), PAGERDUTY_SUMMARY),
        "severity": str(alarm.severity),
        "timestamp": rfc3339(alarm.moment),
        "component": alarm.incident.gateway or alarm.about.name,
        "group": alarm.about.namespace,
        "class": alarm.incident.reason,
        "custom_details": {**dict(_facts(alarm)), "message": truncate(alarm.message, WEBHOOK_TEXT)},
    }
    return {**head, "event_action": "trigger", "client": "Stoker", "payload": payload}


def _webhook(alarm: Alert, over: bool) -> dict[str, Any]:
    return {
        "version": VERSION,
        "status": "resolved" if over else "firing",
        "key": alarm.key,
        "reason": alarm.incident.reason,
        "cause": alarm.cause,
        "severity": str(alarm.severity),
        "message": truncate(alarm.message, WEBHOOK_TEXT),
        "kind": alarm.about.kind,
        "namespace": alarm.about.namespace,
        "name": alarm.about.name,
        "gateway": alarm.incident.gateway,
        "cluster": alarm.cluster,
        "time": rfc3339(alarm.moment),
    }


def _facts(alarm: Alert) -> list[tuple[str, str]]:
    about = alarm.about
    facts = [
        ("Reason", alarm.incident.reason),
        ("Resource", f"{about.kind} {about.namespace}/{about.name}"),
        ("Gateway", alarm.incident.gateway),
        ("Cause", alarm.cause),
        ("Cluster", alarm.cluster),
        ("Time", rfc3339(alarm.moment)),
    ]
    return [(name, truncate(value, 1024)) for name, value in facts if value]


def _title(alarm: Alert) -> str:
    return f"{alarm.incident.reason}: {alarm.incident.gateway or alarm.about.name}"


def _where(alarm: Alert) -> str:
    about, gateway = alarm.about, alarm.incident.gateway
    parts = (
        f"{about.kind} {about.namespace}/{about.name}",
        f"gateway {gateway}" if gateway else "",
        alarm.cluster,
    )
    return ", ".join(part for part in parts if part)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
