"""The options that apply only to `--watch`, and how they change a sync request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stoker.cli.sync.sync_request import SyncRequest
from stoker.domain.errors import InvalidValue, StokerError
from stoker.domain.intent.delivery import MIN_POLLING_SECONDS, PollingPolicy
from stoker.domain.intent.intent import Notice
from stoker.domain.intent.policies import DriftMode, DriftPolicy
from stoker.domain.intent.source import SecretKey
from stoker.domain.quantities import parse_duration
from stoker.domain.reasons import Reason
from stoker.telemetry.probes import parse_address

POLL_SECONDS = 30.0
DEFAULT_DASHBOARD_ADDRESS = "127.0.0.1:8090"
"""The dashboard's default address."""
DASHBOARD_TOKEN = SecretKey("--dashboard-token-file", "")


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Parsed once; every reloaded request gets the same options."""

    health_address: str
    metrics_address: str
    webhook_address: str | None = None
    webhook_secret_file: Path | None = None
    dashboard_address: str | None = None
    """None: the default address, if it is free."""
    dashboard_token_file: Path | None = None
    dashboard_cert_dir: Path | None = None
    dashboard_hosts: tuple[str, ...] = ()
    interval: float | None = None
    drift: DriftMode | None = None
    drift_interval: float | None = None

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> WatchOptions:
        drift = options["drift"]
        for name in ("health_address", "metrics_address", "webhook_address", "dashboard_address"):
            parse_address(options[name] or "")
        return cls(
            options["health_address"],
            options["metrics_address"],
            options["webhook_address"],
            options["webhook_secret_file"],
            options["dashboard_address"],
            options["dashboard_token_file"],
            options["dashboard_cert_dir"],
            options["dashboard_host"],
            _parse_pause("--interval", options["interval"]),
            DriftMode(drift) if drift else None,
            _parse_pause("--drift-interval", options["drift_interval"]),
        )

    def over(self, order: SyncRequest) -> SyncRequest:
        """Return the request with these options applied."""
        secrets, key = order.secrets.flag("--webhook-secret-file", self.webhook_secret_file)
        if key is not None:
            secrets.line(key)
        secrets, token = secrets.flag(DASHBOARD_TOKEN.name, self.dashboard_token_file)
        if token is not None:
            secrets.line(token)
        given = tuple(one for one in order.webhook_keys if secrets.has(one))
        drift = order.drift if order.drift is not None else DriftPolicy(DriftMode.RESTORE)
        polling = order.polling if order.polling is not None else PollingPolicy(interval=POLL_SECONDS)
        return order._replace(
            secrets=secrets,
            webhook_keys=(key,) if key else given,
            notices=(
                *order.notices,
                *(
                    _missing_webhook_key_notice(one)
                    for one in order.webhook_keys
                    if not (key or one in given)
                ),
            ),
            drift=replace(
                drift, mode=self.drift or drift.mode, interval=self.drift_interval or drift.interval
            ),
            polling=polling
            if self.interval is None
            else replace(polling, enabled=True, interval=self.interval),
        )


def _missing_webhook_key_notice(key: SecretKey) -> Notice:
    return Notice(
        Reason.SECRET_NOT_FOUND,
        f"Secret {key.name!r} with key {key.key!r} of spec.webhook is not given, so requests signed with it "
        f"are refused; use --secret {key.name}/{key.key}=FILE",
    )


def _parse_pause(flag: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = parse_duration(text)
    except StokerError as error:
        raise InvalidValue(f"{flag}: {error.message}") from None
    if seconds < MIN_POLLING_SECONDS:
        raise InvalidValue(f"{flag} {text!r} is shorter than {MIN_POLLING_SECONDS:g} s")
    return seconds
