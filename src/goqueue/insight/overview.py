"""How much there is of everything, for the first page that people look at.

With 500 topics and 50 groups all of it takes a few milliseconds: it is read from memory, dead
letters excepted that have come since the last look at them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.broker.queue_views import queue_views
from goqueue.insight.group_views import is_listed, list_groups
from goqueue.model.errors import GoQueueError
from goqueue.transactions.messages import TransactionFilter

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.broker.new_letters import NewLetters
    from goqueue.insight.group_views import GroupLine
    from goqueue.transactions.messages import TransactionView

_OPEN: Final = TransactionFilter(states=frozenset({"Ongoing"}))


@dataclass(frozen=True, slots=True)
class Totals:
    """How much there is; topics that the broker keeps for itself are not counted."""

    topics: int
    partitions: int
    groups: int
    consumers: int
    connections: int
    messages: int
    """What compaction has removed counts along."""
    bytes: int
    delayed: int
    in_flight: int
    retrying: int
    dead_letters: int
    """Those that have not gone back."""
    open_transactions: int
    subjects: int


@dataclass(frozen=True, slots=True)
class HistoryView:
    """One number for each step; the last one is of the moment `at`."""

    step_ms: int
    at: int
    published_per_s: list[float | None]
    consumed_per_s: list[float | None]
    failed_per_s: list[float | None]
    publish_p99_ms: list[float | None]
    lag: list[float | None]


class Inventory(NamedTuple):
    """What the totals, and what needs attention, are made of."""

    totals: Totals
    groups: list[GroupLine]
    open_transactions: list[TransactionView]
    failed: list[tuple[str, str]]
    """Partitions that refuse appends, and why."""
    new_letters: list[NewLetters]
    """Dead letters of the last hour, by where they are."""


async def take_inventory(broker: Broker, connections: int) -> Inventory:
    """Look at everything once."""
    dead_letters = await broker.letters.count_all()
    new_letters = await broker.letters.lately.all()
    topics = 0
    partitions = messages = size_bytes = 0
    failed: list[tuple[str, str]] = []
    for topic in broker.topics.catalogue.by_name.values():
        found = broker.partitions.of_topic(topic)
        logs = [each.log for each in found]
        failed += [
            (f"{topic.name}-{number}", str(log.failure))
            for number, log in enumerate(logs)
            if log.failure is not None
        ]
        if topic.is_internal:
            continue
        topics += 1
        partitions += len(logs)
        messages += sum(each.message_count for each in found)
        size_bytes += sum(log.size_bytes for log in logs)
    groups = list_groups(broker)
    in_flight, retrying = _queued(broker)
    transactions = broker.transactions.list(_OPEN)
    totals = Totals(
        topics=topics,
        partitions=partitions,
        groups=len(groups),
        consumers=sum(each.member_count for each in groups),
        connections=connections,
        messages=messages,
        bytes=size_bytes,
        delayed=_delayed(broker),
        in_flight=in_flight,
        retrying=retrying,
        dead_letters=dead_letters,
        open_transactions=len(transactions),
        subjects=sum(1 for _ in broker.schemas.registry.contexts.subjects("")),
    )
    return Inventory(totals, groups, transactions, failed, new_letters)


def _queued(broker: Broker) -> tuple[int, int]:
    """Messages that members of queue groups have, and those that wait to be tried again."""
    in_flight = retrying = 0
    for group in broker.queues:
        if not is_listed(group):
            continue
        for view in queue_views(broker, group):
            in_flight += view.in_flight
            retrying += view.waiting
    return in_flight, retrying


def _delayed(broker: Broker) -> int:
    try:
        return broker.delays.stats().pending
    except GoQueueError:
        return 0  # while it starts or stops


def history_view(broker: Broker, step_ms: int) -> HistoryView:
    """The last half hour of the node."""
    history = broker.history
    node = history.node
    return HistoryView(
        step_ms=step_ms,
        at=history.at_ms,
        published_per_s=node.published.values(),
        consumed_per_s=node.consumed.values(),
        failed_per_s=node.failed.values(),
        publish_p99_ms=node.publish_p99.values(),
        lag=node.lag.values(),
    )
