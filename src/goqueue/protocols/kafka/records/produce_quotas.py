"""What producers take of their quotas: of their own, and of the tenants of their topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.protocols.kafka.throttling import Throttling
from goqueue.publishing.admission import count_of
from goqueue.wire.kafka.plain_produce import encode_single, with_throttle_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.broker.log_broker import LogBroker
    from goqueue.protocols.kafka.context import Peer, RequestContext
    from goqueue.publishing.straight import StraightWay
    from goqueue.wire.kafka.plain_produce import SingleAnswer
    from goqueue.wire.kafka.produce import ProduceRequest


class ProduceQuotas(Throttling):
    """Counts what is published over Kafka. What other nodes forward, they have counted."""

    def __init__(self, broker: LogBroker) -> None:
        super().__init__(broker.quotas)
        self._topics = broker.topics
        self._measures = broker.measures

    def charge_straight(
        self, peer: Peer, stored: Iterable[tuple[StraightWay, memoryview, int]]
    ) -> int:
        """Count batches that went straight, with their numbers of messages, and mute the client.

        Returns for how long, as its answer tells it.
        """
        if peer.session.node is not None:
            return 0
        wait_s, size_bytes = 0.0, 0
        for way, batch, count in stored:
            quota = way.measures.quota
            if quota is not None:
                wait_s = max(wait_s, quota.published(count, len(batch)))
            size_bytes += len(batch)
        return self.produced(peer, size_bytes, wait_s)

    def charge(self, ctx: RequestContext, request: ProduceRequest) -> None:
        """Count the batches of a request that did not go straight."""
        session, catalogue = ctx.peer.session, self._topics.catalogue
        if session.node is not None:
            return
        wait_s, size_bytes = 0.0, 0
        for topic in request.topics:
            if topic.topic_id is None:
                found = catalogue.by_name.get(topic.name or "")
            else:
                found = catalogue.by_id.get(topic.topic_id)
            quota = None if found is None else self._measures.topic(found.name).quota
            for data in topic.partitions:
                if data.records is None:
                    continue
                size_bytes += len(data.records)
                if quota is not None:
                    waits_s = quota.published(count_of(data.records), len(data.records))
                    wait_s = max(wait_s, waits_s)
        meter = self.meter(session)
        if meter is not None:
            wait_s = max(wait_s, meter.produced(size_bytes))
        ctx.throttle(wait_s)


def single_told(
    ctx: RequestContext, answer: SingleAnswer, first_offset: int, log_start: int
) -> bytes:
    """The answer to a request with one batch, which says how long its client has to wait."""
    frame = encode_single(answer, ctx.correlation_id, first_offset, log_start)
    return with_throttle_time(frame, ctx.version, ctx.throttle_ms)
