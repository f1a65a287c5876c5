"""How much there is of everything, for the first page that people look at.

With 500 topics and 50 groups all of it takes a few milliseconds: it is read from memory, dead
letters excepted that have come since the last look at them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from goqueue.insight.group_views import GroupLine, GroupViews, is_listed
from goqueue.model.errors import GoQueueError
from goqueue.model.tuples import NamedTuple
from goqueue.queues.views import queue_views
from goqueue.transactions.messages import TransactionFilter, TransactionView

if TYPE_CHECKING:
    from goqueue.delays.service import Delays
    from goqueue.insight.history import History
    from goqueue.insight.new_dead_letters import DeadLetterCount, NewDeadLetters
    from goqueue.partitions.elsewhere.figures import PartitionFigures
    from goqueue.partitions.partitions import Partitions
    from goqueue.queues.dead_letters.letters import Letters
    from goqueue.queues.service import Queues
    from goqueue.schemas.service import Schemas
    from goqueue.topics.catalogue import Topics
    from goqueue.transactions.service import Transactions

_OPEN: Final = TransactionFilter(states=frozenset({"Ongoing"}))


class OverviewServices(Protocol):
    """What is counted."""

    topics: Topics
    partitions: Partitions
    figures: PartitionFigures
    group_views: GroupViews
    queues: Queues
    transactions: Transactions
    schemas: Schemas
    delays: Delays
    letters: Letters
    new_dead_letters: NewDeadLetters
    history: History


class Totals(msgspec.Struct, frozen=True):
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


class HistoryView(msgspec.Struct, frozen=True):
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
    new_letters: list[DeadLetterCount]
    """Dead letters of the last hour, by where they are."""


async def take_inventory(services: OverviewServices, connections: int) -> Inventory:
    """Look at everything once."""
    dead_letters = await services.letters.count_all()
    new_letters = await services.new_dead_letters.all()
    topics = 0
    partitions = messages = size_bytes = 0
    failed: list[tuple[str, str]] = []
    for topic in services.topics.catalogue.by_name.values():
        here = services.partitions.of_topic(topic)
        failed += [(str(each.id), str(each.failure)) for each in here if each.failure is not None]
        if topic.is_internal:
            continue
        topics += 1
        partitions += topic.partition_count
        for figures in services.figures.of_topic(topic):
            if figures is not None:
                messages += figures.message_count
                size_bytes += figures.size_bytes
    groups = services.group_views.all()
    in_flight, retrying = _queued(services)
    transactions = services.transactions.list(_OPEN)
    totals = Totals(
        topics=topics,
        partitions=partitions,
        groups=len(groups),
        consumers=sum(each.member_count for each in groups),
        connections=connections,
        messages=messages,
        bytes=size_bytes,
        delayed=_delayed(services),
        in_flight=in_flight,
        retrying=retrying,
        dead_letters=dead_letters,
        open_transactions=len(transactions),
        subjects=sum(1 for _ in services.schemas.registry.contexts.subjects("")),
    )
    return Inventory(totals, groups, transactions, failed, new_letters)


def _queued(services: OverviewServices) -> tuple[int, int]:
    """Messages that members of queue groups have, and those that wait to be tried again."""
    in_flight = retrying = 0
    for group in services.queues:
        if not is_listed(group):
            continue
        for view in queue_views(services.queues, group):
            in_flight += view.in_flight
            retrying += view.waiting
    return in_flight, retrying


def _delayed(services: OverviewServices) -> int:
    try:
        return services.delays.stats().pending
    except GoQueueError:
        return 0  # while it starts or stops


def history_view(services: OverviewServices, step_ms: int) -> HistoryView:
    """The last half hour of the node."""
    history = services.history
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
