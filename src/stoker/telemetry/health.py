"""Named checks of liveness, readiness and startup.

Modules add checks to a `ProcessHealth`; `stoker.telemetry.probes` serves the results. A check is a
function that returns None, or a sentence that describes the failure.

Liveness detects a stuck process: its checks are heartbeats of workers. A failure elsewhere (a gateway that
is down) belongs to readiness or to a condition; otherwise the kubelet would restart a process that only
waits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from stoker.domain.clock import Clock
from stoker.telemetry.logs import get_logger
from stoker.telemetry.redaction import redact_text

HealthCheck: TypeAlias = Callable[[], str | None]

MAX_REASON = 512

log = get_logger(__name__)


class HealthChecks:
    """The named checks of one probe, which succeeds if all of them do."""

    def __init__(self) -> None:
        self._checks: dict[str, HealthCheck] = {}

    def add(self, name: str, check: HealthCheck) -> None:
        self._checks[name] = check

    def remove(self, name: str) -> None:
        self._checks.pop(name, None)

    def failures(self) -> list[str]:
        """Return a line for each failing check. A check that raises fails, and the log has the traceback."""
        lines = []
        for name, check in list(self._checks.items()):
            try:
                why = check()
            except Exception:
                log.warning("health.check_raised", check=name, exc_info=True)
                why = "the check itself failed"
            if why is not None:
                lines.append(f"{name}: {redact_text(why, MAX_REASON)}")
        return lines


@dataclass(frozen=True, slots=True)
class ProcessHealth:
    """The checks of the three probes of Kubernetes."""

    live: HealthChecks = field(default_factory=HealthChecks)
    ready: HealthChecks = field(default_factory=HealthChecks)
    started: HealthChecks = field(default_factory=HealthChecks)


class Heartbeat:
    """A worker's heartbeat: call `beat` in every iteration, and add `check` to the liveness checks."""

    def __init__(self, clock: Clock, limit: float) -> None:
        self._clock = clock
        self._limit = limit
        self._last = clock.monotonic()

    def beat(self) -> None:
        self._last = self._clock.monotonic()

    def check(self) -> str | None:
        silent = self._clock.monotonic() - self._last
        if silent <= self._limit:
            return None
        return f"no sign of life for {silent:.0f} s, allowed are {self._limit:.0f} s"
