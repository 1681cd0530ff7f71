"""The series of one metric: a child of the library's metric per label set, up to a limit.

`Metrics.counter`, `.gauge` and `.histogram` return a family. It is thread-safe. Once it is full, new label
sets share one series whose labels are all `_other`: the sum stays right and memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Generic, TypeVar

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

from stoker.domain.errors import InvalidValue
from stoker.telemetry.labels import OTHER, MetricLabelSet, clean_label, label_set

M = TypeVar("M", bound=MetricWrapperBase)


class MetricFamily(Generic[M]):
    """All series of one metric."""

    def __init__(self, name: str, metric: M, labels: Sequence[str], max_series: int) -> None:
        self.name = name
        self._metric = metric
        self._labels: MetricLabelSet = tuple(labels)
        self._max_series = max_series
        self._children: dict[MetricLabelSet, M] = {}
        self._of_resource: dict[tuple[str, str], set[MetricLabelSet]] = {}
        self._lock = Lock()

    def forget(self, namespace: str, cr: str, gateway: str | None) -> None:
        """Remove the series of a resource, or only of one of its gateways."""
        if not {"namespace", "cr"} <= set(self._labels) or (gateway and "gateway" not in self._labels):
            return
        resource = (clean_label(namespace), clean_label(cr))
        with self._lock:
            known = self._of_resource.get(resource, set())
            gone = {
                each
                for each in known
                if gateway is None or self._value(each, "gateway") == clean_label(gateway)
            }
            for values in gone:
                self._metric.remove(*values)
                self._children.pop(values, None)
            known -= gone
            if not known:
                self._of_resource.pop(resource, None)

    def drop(self, **labels: str) -> None:
        """Remove a series if it exists, because its object is gone."""
        values = label_set(self.name, self._labels, labels)
        with self._lock:
            if self._children.pop(values, None) is not None:
                self._metric.remove(*values)
                for known in self._of_resource.values():
                    known.discard(values)

    def _child(self, given: Mapping[str, str]) -> M:
        values = label_set(self.name, self._labels, given)
        if not values:
            return self._metric
        child = self._children.get(values)
        return child if child is not None else self._grow(values)

    def _grow(self, values: MetricLabelSet) -> M:
        with self._lock:
            if len(self._children) >= self._max_series and values not in self._children:
                values = (OTHER,) * len(values)
            child = self._children[values] = self._metric.labels(*values)
            if {"namespace", "cr"} <= set(self._labels):
                resource = (self._value(values, "namespace"), self._value(values, "cr"))
                self._of_resource.setdefault(resource, set()).add(values)
            return child

    def _value(self, values: MetricLabelSet, label: str) -> str:
        return values[self._labels.index(label)]


class CounterFamily(MetricFamily[Counter | Gauge]):
    """A counter, which only increases. It is a gauge of the library if its name does not end in `_total`."""

    def inc(self, amount: float = 1, /, **labels: str) -> None:
        if amount < 0:
            raise InvalidValue(f"counter {self.name} cannot go down by {-amount}")
        self._child(labels).inc(amount)


class GaugeFamily(MetricFamily[Gauge]):
    """A value that can increase and decrease."""

    def set(self, value: float, /, **labels: str) -> None:
        self._child(labels).set(value)

    def inc(self, amount: float = 1, /, **labels: str) -> None:
        self._child(labels).inc(amount)


class HistogramFamily(MetricFamily[Histogram]):
    """A distribution of values over buckets."""

    def observe(self, value: float, /, **labels: str) -> None:
        self._child(labels).observe(value)
