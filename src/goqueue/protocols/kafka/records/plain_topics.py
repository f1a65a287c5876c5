"""Where the batches of plain Produce requests go: looked up once, and again when topics change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.requests import Acks
from goqueue.wire.kafka.plain_produce import (
    PlainRequest,
    SingleAnswer,
    parse_plain,
    single_answer,
)
from goqueue.wire.kafka.produce import TOPIC_IDS_FROM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.broker.log_broker import LogBroker
    from goqueue.protocols.kafka.context import Peer
    from goqueue.publishing.straight import StraightWay
    from goqueue.wire.kafka.plain_produce import PlainTopic

ACKS: Final = {acks.value: acks for acks in Acks}
_MAX_SINGLES: Final = 10_000
"""Requests with one partition that are remembered by what is alike in them: client, topic,
partition and acks. At the bound all are looked up anew."""


Route: TypeAlias = "tuple[PlainRequest, Acks, list[tuple[StraightWay, int, int]]]"
"""What a request asks for, and the way of each batch and where in the frame it is. Plain, as one is
made for each request."""

SingleRoute: TypeAlias = "tuple[PlainRequest, Acks, StraightWay, SingleAnswer]"
"""What requests with one partition alike ask for, its way, and what their answers look like."""


class PlainTopics:
    """The ways into partitions, by what names their topics on the wire."""

    def __init__(self, broker: LogBroker, prefix: str = "") -> None:
        """`prefix` is before the names on the wire, which are those of a tenant."""
        self._prefix = prefix
        self._broker = broker
        self._topics = broker.topics
        self._publisher = broker.publisher
        self._of_tenants: dict[str, PlainTopics] = {}
        """By their prefixes; as many as there are tenants."""
        self._forget()

    def _forget(self) -> None:
        self._catalogue = self._topics.catalogue
        """What everything below was looked up in."""
        self._by_name: dict[bytes, dict[int, StraightWay]] = {}
        """By names with their lengths, which are written in two ways that cannot be mistaken for
        each other; and by ids. As many as there are topics, and partitions of them."""
        self._by_id: dict[bytes, dict[int, StraightWay]] = {}
        self._singles: dict[bytes, SingleRoute] = {}

    def named_by(self, peer: Peer) -> PlainTopics:
        """These, or for a client of a tenant those that it can name."""
        namespace = peer.session.namespace
        if namespace is None:
            return self
        known = self._of_tenants.get(namespace.prefix)
        if known is None:
            known = PlainTopics(self._broker, namespace.prefix)
            self._of_tenants[namespace.prefix] = known
        return known

    def single(self, alike: bytes, frame: memoryview, version: int) -> SingleRoute | None:
        """The route of a request that `single_batch` has read; None when it cannot go straight."""
        if self._topics.catalogue is not self._catalogue:
            self._forget()
        route = self._singles.get(alike)
        if route is not None and not route[2].partition.is_closed:
            return route
        found = self.route(frame, version)
        if found is None:
            return None
        request, acks, ((way, _, _),) = found
        if len(self._singles) >= _MAX_SINGLES:
            self._singles.clear()
        route = self._singles[alike] = request, acks, way, single_answer(version, request[2])
        return route

    def route(self, frame: memoryview, version: int) -> Route | None:
        """What a plain request asks for; None when it cannot go straight."""
        if self._topics.catalogue is not self._catalogue:
            self._forget()
        request = parse_plain(frame, version)
        if request is None:
            return None
        asked, _, topics = request
        acks = ACKS.get(asked)
        ways = self._of(topics, by_id=version >= TOPIC_IDS_FROM)
        return None if acks is None or ways is None else (request, acks, ways)

    def _of(
        self, topics: Sequence[PlainTopic], *, by_id: bool
    ) -> list[tuple[StraightWay, int, int]] | None:
        """The way of each batch, and where in the frame it is; None when one cannot go straight."""
        known = self._by_id if by_id else self._by_name
        found = []
        for field, partitions in topics:
            ways = known.get(field)
            for number, start, stop in partitions:
                way = None if ways is None else ways.get(number)
                if way is None or way.partition.is_closed:
                    way = self._find(field, number, by_id=by_id)
                    if way is None:
                        return None
                    ways = known.setdefault(field, {})
                    ways[number] = way
                found.append((way, start, stop))
        return found

    def _find(self, field: bytes, number: int, *, by_id: bool) -> StraightWay | None:
        if by_id:
            topic = self._catalogue.by_id.get(UUID(bytes=field))
        else:
            name = field[2:] if field[:1] == b"\0" else field[1:]
            topic = self._catalogue.by_name.get(self._prefix + name.decode("utf-8", "replace"))
        if topic is None:
            return None
        return self._publisher.straight_way(TopicPartition(topic.name, number))
