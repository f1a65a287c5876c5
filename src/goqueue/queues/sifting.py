"""Messages that were read for a member and are not handed out: gone, undecodable, expired."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from goqueue.model.dead_letters import Reason
from goqueue.queues.acquired_batch import may_expire, sift, take_expired
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.decisions import doom

if TYPE_CHECKING:
    from goqueue.partitions.clock_guard import ClockGuard
    from goqueue.partitions.measures import Measures
    from goqueue.queues.acquired_batch import Portion
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.queues.traces import QueueTraces
    from goqueue.runtime.clock import Clock
    from goqueue.topics.catalogue import Topics


class SiftServices(Protocol):
    """What says which messages have expired, and hears of it."""

    measures: Measures
    queue_traces: QueueTraces
    topics: Topics
    clock: Clock
    clock_guard: ClockGuard


def sift_portion(services: SiftServices, group: QueueGroup, portion: Portion) -> None:
    """Be done with what is not there, does not decode, or whose TTL expired.

    How old messages are is told by the wall clock, which dated them; after a jump of it none
    expires.
    """
    now_ms = services.clock.now_ms()
    sift(portion, group.settings, now_ms)
    topic = portion.partition.id.topic
    settings = services.topics.catalogue.topic(topic).settings
    ttl_ms = settings.ttl_ms or 0
    if not may_expire(portion, ttl_ms) or services.clock_guard.jump() is not None:
        return
    expired = take_expired(portion, ttl_ms, now_ms)
    if not expired:
        return
    services.measures.expired(topic, len(expired))
    ranges = ops.ranges_of(expired)
    if services.queue_traces.is_on:
        services.queue_traces.ttl_expired(group.group_id, portion.key, ranges)
    if settings.dead_letters_expired:
        portion.changes += doom(expired, Reason.TTL_EXPIRED, group.settings, now_ms)
    else:
        portion.changes.append(ops.Settled(ranges))
