"""The metrics of the runtime itself: reconciles, work queues, watches, Leases.

Every process that talks to a cluster creates one `RuntimeMetrics` on its `Metrics` and passes it to the
parts of `stoker.kube`. They report by calling its methods, and know neither label sets nor the library.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from stoker.telemetry.metrics import MetricReading, Metrics


class QueueState(Protocol):
    """The state of a work queue at one moment."""

    @property
    def ready(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def delayed(self) -> int: ...
    @property
    def adds_total(self) -> int: ...
    @property
    def retries_total(self) -> int: ...
    @property
    def oldest_seconds(self) -> float: ...
    @property
    def longest_running_seconds(self) -> float: ...


class HasKind(Protocol):
    @property
    def kind(self) -> str: ...


class ReflectorState(Protocol):
    """The fields of a reflector that are measured."""

    @property
    def resource(self) -> HasKind: ...
    @property
    def relists(self) -> int: ...
    @property
    def broken_streams(self) -> int: ...
    @property
    def silences(self) -> int: ...


class RuntimeMetrics:
    """Declares the runtime's metrics and receives reports."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._passes = metrics.counter(
            "ignition_sync_reconcile_total",
            "Passes over a resource, by how they ended.",
            ("namespace", "cr", "result"),
        )
        self._pass_seconds = metrics.histogram(
            "ignition_sync_reconcile_duration_seconds",
            "How long a pass over a resource took.",
            ("namespace", "cr"),
        )
        self._lease_held = metrics.gauge(
            "ignition_sync_lease_held", "1 while this process holds the lease, else 0.", ("controller",)
        )
        self._lease_terms = metrics.counter(
            "ignition_sync_lease_terms_total", "Times this process has won the lease.", ("controller",)
        )

    def reconciled(self, namespace: str, cr: str, result: str, seconds: float) -> None:
        """Count a finished reconcile of a resource."""
        self._passes.inc(namespace=namespace, cr=cr, result=result)
        self._pass_seconds.observe(seconds, namespace=namespace, cr=cr)

    def lease_won(self, lease: str) -> None:
        self._lease_terms.inc(controller=lease)
        self._lease_held.set(1, controller=lease)

    def lease_not_held(self, lease: str) -> None:
        self._lease_held.set(0, controller=lease)

    def watch_queue(self, queue: str, state: Callable[[], QueueState]) -> None:
        """Read the queue each time the page is requested: `watch_queue("sync", work_queue.snapshot)`."""
        self._metrics.collect_from(lambda: _queue_readings(queue, state()))

    def watch_reflectors(self, states: Callable[[], Iterable[ReflectorState]]) -> None:
        """Read the reflectors each time the page is requested; those of one kind are summed."""
        self._metrics.collect_from(lambda: watch_readings(states()))


def watch_readings(states: Iterable[ReflectorState]) -> Iterator[MetricReading]:
    """Yield watch metrics; also for a process that has watches but no reconciles or queues."""
    restarts: Counter[tuple[str, str]] = Counter()
    for state in states:
        kind = state.resource.kind
        restarts[kind, "relist"] += state.relists
        restarts[kind, "broken"] += state.broken_streams
        restarts[kind, "silence"] += state.silences
    for (kind, reason), count in restarts.items():
        yield MetricReading(
            "ignition_sync_watch_restarts_total",
            "Watches that had to begin anew, by cause.",
            count,
            {"kind": kind, "reason": reason},
            counter=True,
        )


def _queue_readings(queue: str, state: QueueState) -> Iterator[MetricReading]:
    labels = {"queue": queue}
    prefix = "ignition_sync_workqueue"
    yield MetricReading(f"{prefix}_depth", "Keys that wait to be worked on.", state.ready, labels)
    yield MetricReading(f"{prefix}_in_flight", "Keys that are being worked on.", state.in_flight, labels)
    yield MetricReading(f"{prefix}_delayed", "Keys that come back later.", state.delayed, labels)
    yield MetricReading(
        f"{prefix}_oldest_seconds", "How long the first key has waited.", state.oldest_seconds, labels
    )
    yield MetricReading(
        f"{prefix}_longest_running_seconds",
        "How long the slowest worker has held its key.",
        state.longest_running_seconds,
        labels,
    )
    yield MetricReading(
        f"{prefix}_adds_total", "Keys that entered the line.", state.adds_total, labels, counter=True
    )
    yield MetricReading(
        f"{prefix}_retries_total", "Keys that failed.", state.retries_total, labels, counter=True
    )
