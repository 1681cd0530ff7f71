"""Metrics of a process, with strict names and labels.

Modules declare counters, gauges and histograms on the `Metrics` object that the command passes to them
(`stoker.telemetry.runtime` declares those of the runtime itself); `stoker.telemetry.probes` serves the
page. Names are exported as declared, with a prefix only if the operator sets it.

Labels identify resources, nothing else. A declaration with an unknown label is refused; a value that
looks like a URL, a commit or a path is replaced; a metric holds a limited number of label sets. Call
`forget` when a resource is deleted, so that no stale series are exported.
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

# The library would add a series with the creation time to every counter and histogram.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library left this one without types


@dataclass(frozen=True, slots=True)
class MetricReading:
    """A value that is read when the metrics page is requested."""

    name: str
    description: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    counter: bool = False


class DeclaredMetric(NamedTuple):
    """A metric as the metrics page shows it; its series appear as events occur."""

    name: str
    type: str
    labels: tuple[str, ...]
    description: str


class Metrics:
    """All metrics of a process, in a registry of their own."""

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
        # The library appends "_total" to every counter; a declared name without it must stay unchanged.
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
        """Read values from `callback` each time the page is requested; callbacks may share names.

        It is also called once now, so that a wrong name or label is refused here and not at the first scrape.
        """
        for reading in callback():
            self._refuse_reading(reading)
        self._callbacks.append(callback)

    def forget(self, namespace: str, cr: str, gateway: str | None = None) -> None:
        """Remove every series of a deleted resource, or of one of its gateways."""
        for family in self._families.values():
            family.forget(namespace, cr, gateway)

    def read(self) -> list[MetricReading]:
        """Call all callbacks. Run it on the event loop, because the callbacks read the loop's data."""
        return list(self._readings())

    def page(self, readings: Iterable[MetricReading]) -> bytes:
        """Return the page in Prometheus' text format. A thread may run it: it reads no loop data."""
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
        """Return all current metrics by name; of those read by callbacks, only with a value."""
        found = dict(self._declared)
        for reading in self._readings():
            full = self._prefix + reading.name
            kind = "counter" if reading.counter else "gauge"
            found[full] = DeclaredMetric(full, kind, tuple(reading.labels), reading.description)
        return [found[name] for name in sorted(found)]

    @property
    def _plain_counters(self) -> list[str]:
        """Counters that the library can only hold as gauges, because of their names."""
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
        self._accepted.clear()  # check again: a reading must not share the name of a metric declared later
        self._declared[full] = DeclaredMetric(full, kind, tuple(labels), description)
        return full

    def _readings(self) -> Iterator[MetricReading]:
        for callback in self._callbacks:
            try:
                readings = list(callback())
                for reading in readings:
                    self._refuse_reading(reading)
            except Exception:
                log.warning("metrics.callback_failed", exc_info=True)  # the other values stay valid
                continue
            yield from readings

    def _refuse_reading(self, reading: MetricReading) -> None:
        form = (reading.name, *reading.labels)
        if form in self._accepted:  # thousands have the same form, and the event loop waits for this
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
    """Presents the declared metrics and the readings to the library as one collector."""

    def __init__(self, declared: CollectorRegistry, readings: list[Metric]) -> None:
        self._declared = declared
        self._readings = readings

    def collect(self) -> Iterator[Metric]:
        yield from self._declared.collect()
        yield from self._readings
