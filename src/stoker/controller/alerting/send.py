"""Sends one alert to one service: reads its Secret, sends a request, and maps the HTTP status to an error.

The URL of a chat webhook is itself a secret. Error messages never contain it: they name the host and the
Secret. They never contain the body of a response either: messages become Events, and the author of a URL
could read there what that URL serves to the controller.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from stoker.controller.alerting.alerts import Alert
from stoker.controller.alerting.formats import alert_body
from stoker.domain.errors import Retry, Stalled, StokerError
from stoker.domain.intent.delivery import AlertKind, AlertTarget
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.http_client import EgressRefused, ServiceRequest, ServiceResponse, send_request
from stoker.kube.client.client import KubeClient
from stoker.kube.client.secret_reader import NamespaceSecretReader

PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"
TIMEOUT = 10.0
MAX_REPLY = 16 * 1024
MAX_URL_LENGTH = 2048
_RETRY_STATUSES = (408, 425, 429)


@dataclass(frozen=True, slots=True)
class AlertSender:
    """Sends alerts to services."""

    client: KubeClient
    pagerduty: str = PAGERDUTY
    timeout: float = TIMEOUT

    async def send(self, namespace: str, target: AlertTarget, alarm: Alert, *, over: bool) -> None:
        """Send the alert; raise Retry if a later attempt may succeed, else Stalled."""
        secret = await self._secret(namespace, target)
        address = self.pagerduty if target.kind is AlertKind.PAGERDUTY else _address(secret)
        body = msgspec.json.encode(alert_body(target.kind, alarm, over=over, key=secret))
        request = ServiceRequest(
            address,
            "POST",
            {"Content-Type": "application/json"},
            body,
            timeout=self.timeout,
            max_reply=MAX_REPLY,
            services_of=namespace,
        )
        try:
            answer = await send_request(request)
        except EgressRefused as error:
            raise Stalled(error.message, reason=error.reason) from None
        if not answer.ok:
            raise _refusal(answer, urlsplit(address).hostname or "")

    async def _secret(self, namespace: str, target: AlertTarget) -> Secret:
        if target.inline is not None:
            return target.inline
        if target.secret is None:
            raise Stalled("the target names no Secret", reason=Reason.INVALID_SPEC)
        try:
            return await NamespaceSecretReader(self.client, namespace).value(target.secret)
        except Stalled as error:  # a user may be about to create it
            raise Retry(error.message, reason=error.reason) from None


def target_title(target: AlertTarget) -> str:
    """The target as messages name it."""
    if target.secret is None:
        return f"{target.kind} (its secret is in the resource)"
    return f"{target.kind} (key {target.secret.key!r} of Secret {target.secret.name!r})"


def _address(secret: Secret) -> str:
    text = secret.reveal() if secret.is_one_line else ""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.username is not None or not text.isprintable() or len(text) > MAX_URL_LENGTH:
        raise Stalled("the value in the Secret is not an http or https address", reason=Reason.INVALID_VALUE)
    return text


def _refusal(answer: ServiceResponse, host: str) -> StokerError:
    sentence = f"{host} answered with status {answer.status}"
    if answer.status >= 500 or answer.status in _RETRY_STATUSES:
        return Retry(sentence, after=answer.wait, reason=Reason.ALERT_FAILED)
    return Stalled(sentence, reason=Reason.ALERT_FAILED)
