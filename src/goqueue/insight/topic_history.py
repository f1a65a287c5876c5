"""What was published to and read from each topic over time."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.insight.lines import Line
from goqueue.metrics import names
from goqueue.model.internal_topics import is_internal_topic

if TYPE_CHECKING:
    from goqueue.metrics.registry import Metrics

_MAX_TOPICS: Final = 200
"""Topics with a history; of more, the ones without traffic for the longest time have none."""
_COUNTERS: Final = (
    names.MESSAGES_PUBLISHED,
    names.MESSAGES_FETCHED,
    names.BYTES_PUBLISHED,
    names.BYTES_CONSUMED,
)


class TopicLines(msgspec.Struct):
    """Per second, of the partitions that this node leads."""

    published: Line = msgspec.field(default_factory=Line)
    consumed: Line = msgspec.field(default_factory=Line)
    bytes_in: Line = msgspec.field(default_factory=Line)
    bytes_out: Line = msgspec.field(default_factory=Line)


class TopicHistory:
    """The lines of the topics with the most recent traffic."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.lines: OrderedDict[str, TopicLines] = OrderedDict()
        """The topic with the most recent traffic is the last."""
        self._counts = self._read()

    def of(self, topic: str) -> TopicLines | None:
        """The lines of a topic; None without traffic, or when it is not among the most recent."""
        return self.lines.get(topic)

    def forget(self, topic: str) -> None:
        """The topic was deleted."""
        self.lines.pop(topic, None)

    def sample(self, span_s: float, tick: int) -> None:
        """Take one point of each topic, over the time since the last one."""
        before, self._counts = self._counts, self._read()
        rates = {
            topic: _rates(before.get(topic), counts, span_s)
            for topic, counts in self._counts.items()
        }
        for topic, found in rates.items():
            if any(found):
                self.lines.setdefault(topic, TopicLines())
                self.lines.move_to_end(topic)
        while len(self.lines) > _MAX_TOPICS:
            self.lines.popitem(last=False)
        idle = (0.0,) * len(_COUNTERS)
        for topic, lines in self.lines.items():
            published, consumed, bytes_in, bytes_out = rates.get(topic, idle)
            lines.published.add(published, tick)
            lines.consumed.add(consumed, tick)
            lines.bytes_in.add(bytes_in, tick)
            lines.bytes_out.add(bytes_out, tick)

    def _read(self) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        for at, name in enumerate(_COUNTERS):
            for (topic, *_), count in self._metrics.values(name).items():
                if not is_internal_topic(topic):
                    found.setdefault(topic, [0.0] * len(_COUNTERS))[at] += count
        return found


def _rates(before: list[float] | None, after: list[float], span_s: float) -> tuple[float, ...]:
    if before is None:
        before = [0.0] * len(after)
    return tuple(max(now - was, 0.0) / span_s for was, now in zip(before, after, strict=True))
