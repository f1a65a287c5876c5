"""A reading as text, for `GET /metrics`: Prometheus' format, or OpenMetrics for who accepts it."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from goqueue.metrics import names
from goqueue.metrics.kinds import CounterName, Definition, GaugeName, HistogramName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goqueue.metrics.registry import Labels, Reading

PREFIX: Final = "goqueue_"


def exposition(reading: Reading, accept: str = "") -> tuple[str, bytes]:
    """The content type and the body for a client with this `Accept` header; in any thread."""
    encode, content_type = choose_encoder(accept)
    registry = CollectorRegistry()
    registry.register(_ReadingCollector(reading))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return content_type, encode(registry)


class _ReadingCollector(Collector):
    """Hands prometheus-client the families of one reading."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def describe(self) -> Iterable[Metric]:
        # Otherwise the registry would collect once more, only to learn the names.
        return ()

    def collect(self) -> Iterator[Metric]:
        for name in names.ALL:
            if isinstance(name, HistogramName):
                yield self._histogram(name)
            else:
                yield self._plain(name)

    def _plain(self, name: Definition) -> Metric:
        family: CounterMetricFamily | GaugeMetricFamily
        kind = CounterMetricFamily if isinstance(name, CounterName) else GaugeMetricFamily
        family = kind(PREFIX + name.name, name.help, labels=self._label_names(name))
        for labels, value in self._reading.values.get(name, {}).items():
            family.add_metric(self._label_values(labels), value)
        return family

    def _histogram(self, name: HistogramName) -> Metric:
        family = HistogramMetricFamily(
            PREFIX + name.name, name.help, labels=self._label_names(name)
        )
        bounds = [*map(str, name.buckets), "+Inf"]
        for labels, found in self._reading.distributions[name].items():
            buckets = list(zip(bounds, accumulate(found.counts), strict=True))
            family.add_metric(self._label_values(labels), buckets, found.total)
        return family

    def _label_names(self, name: Definition) -> list[str]:
        labels = name.labels
        if isinstance(name, GaugeName) and name.per_partition and not self._reading.partition_label:
            labels = labels[:-1]
        return ["node_id", *labels]

    def _label_values(self, labels: Labels) -> list[str]:
        return [self._reading.node_id, *labels]
