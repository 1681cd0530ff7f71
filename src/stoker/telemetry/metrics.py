"""Metrics: what may be counted, under which names and labels.

Parts of the product declare counters, gauges and histograms on one `Metrics`
object that the command hands them (`stoker.telemetry.runtime` has those of the
runtime itself); `stoker.telemetry.probes` serves its page. Names are exported as
declared (C-137, C-138), with a prefix only where the operator asked for one
(C-167).

A label tells resources apart, nothing else. A declaration with an unknown label
is refused; a value that looks like an address, a commit or a path is replaced;
a metric holds a bounded number of label sets. What belongs to a resource that
is gone must be dropped with `forget`, so that nothing stale is exported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric

from stoker.domain.errors import InvalidValue
from stoker.telemetry.labels import OTHER, clean_label, refuse_unknown_labels
from stoker.telemetry.logs import get_logger
from stoker.telemetry.series import CounterFamily, GaugeFamily, HistogramFamily, MetricFamily

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
MAX_SERIES: Final = 10_000
DURATIONS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)

_NAME = re.compile(r"[a-z][a-z0-9_]*")
log = get_logger(__name__)

# The library would double every counter and histogram by a series that says when it was made.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library left this one without types


@dataclass(frozen=True, slots=True)
class MetricReading:
    """One value that is looked up when the page is asked for."""

    name: str
    description: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    counter: bool = False


class DeclaredMetric(NamedTuple):
    """One metric as a page of this process shows it; its series come with what happens."""

    name: str
    type: str
    labels: tuple[str, ...]
    description: str


class Metrics:
    """All metrics of one process, in a registry of its own."""

    def __init__(self, prefix: str = "", max_series: int = MAX_SERIES) -> None:
        if prefix and not _NAME.fullmatch(prefix):
            raise InvalidValue(f"metrics prefix {prefix[:80]!r} is not lower-case letters, digits and _")
        self._prefix = f"{prefix.rstrip('_')}_" if prefix else ""
        self._max_series = max_series
        self._registry = CollectorRegistry()
        self._families: dict[
            str, MetricFamily[Counter | Gauge] | MetricFamily[Gauge] | MetricFamily[Histogram]
        ] = {}
        self._declared: dict[str, DeclaredMetric] = {}
        self._callbacks: list[Callable[[], Iterable[MetricReading]]] = []
        self._accepted: set[tuple[str, ...]] = set()
        ProcessCollector(registry=self._registry)

    def counter(self, name: str, description: str, labels: Sequence[str] = ()) -> CounterFamily:
        full = self._declare(name, "counter", description, labels)
        # The library appends "_total" to every counter; a name without it must stay as it is (C-137).
        kind = Counter if full.endswith("_total") else Gauge
        metric = kind(full, description, labels, registry=self._registry)
        family = self._families[full] = CounterFamily(full, metric, labels, self._max_series)
        return family

    def gauge(self, name: str, description: str, labels: Sequence[str] = ()) -> GaugeFamily:
        full = self._declare(name, "gauge", description, labels)
        metric = Gauge(full, description, labels, registry=self._registry)
        family = self._families[full] = GaugeFamily(full, metric, labels, self._max_series)
        return family

    def histogram(
        self, name: str, description: str, labels: Sequence[str] = (), buckets: Sequence[float] = DURATIONS
    ) -> HistogramFamily:
        full = self._declare(name, "histogram", description, labels)
        metric = Histogram(full, description, labels, registry=self._registry, buckets=buckets)
        family = self._families[full] = HistogramFamily(full, metric, labels, self._max_series)
        return family

    def collect_from(self, callback: Callable[[], Iterable[MetricReading]]) -> None:
        """Ask `callback` for its values each time the page is read; names may be shared by callbacks.

        It is asked once now, so that a wrong name or label is refused here and not at the first scrape.
        """
        for reading in callback():
            self._refuse_reading(reading)
        self._callbacks.append(callback)

    def forget(self, namespace: str, cr: str, gateway: str | None = None) -> None:
        """Drop every series of a resource that is gone, or of one of its gateways."""
        for family in self._families.values():
            family.forget(namespace, cr, gateway)

    def read(self) -> list[MetricReading]:
        """Ask all callbacks. Belongs on the event loop, which owns what they look at."""
        return list(self._readings())

    def page(self, readings: Iterable[MetricReading]) -> bytes:
        """The page in Prometheus' text form. Touches nothing of the event loop: it may run in a thread."""
        text = generate_latest(_ReadingsCollector(self._registry, self._added_up(readings)))
        for name in self._plain_counters:
            text = text.replace(f"# TYPE {name} gauge\n".encode(), f"# TYPE {name} counter\n".encode())
        return text

    def _added_up(self, readings: Iterable[MetricReading]) -> list[Metric]:
        found: dict[str, tuple[MetricReading, dict[tuple[tuple[str, str], ...], float]]] = {}
        for reading in readings:
            _, values = found.setdefault(reading.name, (reading, {}))
            labels = tuple((name, clean_label(value)) for name, value in reading.labels.items())
            if len(values) >= self._max_series and labels not in values:
                labels = tuple((name, OTHER) for name, _ in labels)
            values[labels] = values.get(labels, 0.0) + reading.value
        return [self._metric(first, values) for first, values in found.values()]

    def declared(self) -> list[DeclaredMetric]:
        """All metrics that there are now, by name; of those that are looked up, the ones with a value."""
        found = dict(self._declared)
        for reading in self._readings():
            full = self._prefix + reading.name
            kind = "counter" if reading.counter else "gauge"
            found[full] = DeclaredMetric(full, kind, tuple(reading.labels), reading.description)
        return [found[name] for name in sorted(found)]

    @property
    def _plain_counters(self) -> list[str]:
        """Counters that the library can only keep as gauges, because of their names."""
        return [
            one.name
            for one in self._declared.values()
            if one.type == "counter" and not one.name.endswith("_total")
        ]

    def _declare(self, name: str, kind: str, description: str, labels: Sequence[str]) -> str:
        refuse_unknown_labels(name, labels)
        full = self._prefix + name
        if not _NAME.fullmatch(full):
            raise InvalidValue(f"metric name {full[:80]!r} is not lower-case letters, digits and _")
        if full in self._families:
            raise InvalidValue(f"metric {full} is declared twice")
        self._accepted.clear()  # a reading must not have the name of a metric that is declared later
        self._declared[full] = DeclaredMetric(full, kind, tuple(labels), description)
        return full

    def _readings(self) -> Iterator[MetricReading]:
        for callback in self._callbacks:
            try:
                readings = list(callback())
                for reading in readings:
                    self._refuse_reading(reading)
            except Exception:
                log.warning("metrics.callback_failed", exc_info=True)  # the other values are still true
                continue
            yield from readings

    def _refuse_reading(self, reading: MetricReading) -> None:
        form = (reading.name, *reading.labels)
        if form in self._accepted:  # thousands have the same form, and the event loop waits for all of them
            return
        refuse_unknown_labels(reading.name, reading.labels)
        if not _NAME.fullmatch(self._prefix + reading.name) or self._prefix + reading.name in self._families:
            raise InvalidValue(f"metric {reading.name[:80]!r} is no name, or a declared metric has it")
        self._accepted.add(form)

    def _metric(self, first: MetricReading, values: Mapping[tuple[tuple[str, str], ...], float]) -> Metric:
        full = self._prefix + first.name
        counts = first.counter and full.endswith("_total")
        metric = Metric(
            full.removesuffix("_total") if counts else full,
            first.description,
            "counter" if counts else "gauge",
        )
        for labels, value in values.items():
            metric.add_sample(full, dict(labels), value)
        return metric


class _ReadingsCollector:
    """The declared metrics and one set of readings, as the library wants to see them."""

    def __init__(self, declared: CollectorRegistry, readings: list[Metric]) -> None:
        self._declared = declared
        self._readings = readings

    def collect(self) -> Iterator[Metric]:
        yield from self._declared.collect()
        yield from self._readings
