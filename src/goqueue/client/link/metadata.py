"""What is known of a cluster: its brokers, its topics, and who leads which partition."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from goqueue.client.link.addresses import Address

if TYPE_CHECKING:
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.wire.kafka.reading import Struct


class Led(msgspec.Struct, gc=False):
    """Who leads a partition, and since which epoch."""

    node: int
    epoch: int


class TopicView(msgspec.Struct):
    """A topic as a broker described it."""

    name: str
    topic_id: UUID
    partitions: dict[int, Led]
    is_internal: bool
    seen_s: float
    """When, on the loop's clock."""

    @property
    def count(self) -> int:
        """How many partitions it has."""
        return len(self.partitions)


class Metadata:
    """The newest answer for everything that was asked, and hints that came since."""

    def __init__(self) -> None:
        self.nodes: dict[int, Address] = {}
        self.topics: dict[str, TopicView] = {}
        self.names: dict[UUID, str] = {}

    def take(self, answer: Struct, now_s: float) -> None:
        """Take over what a broker answered; an older epoch of a partition is not believed."""
        self.nodes = {each.node_id: Address(each.host, each.port) for each in answer.brokers}
        for topic in answer.topics:
            if topic.error_code or topic.name is None:
                continue
            before = self.topics.get(topic.name)
            view = TopicView(topic.name, topic.topic_id, {}, topic.is_internal, now_s)
            for each in topic.partitions:
                led = Led(each.leader_id, each.leader_epoch)
                known = before and before.partitions.get(each.partition_index)
                if (
                    known
                    and before
                    and before.topic_id == view.topic_id
                    and known.epoch > led.epoch
                ):
                    led = known
                view.partitions[each.partition_index] = led
            self.topics[view.name] = view
            self.names[view.topic_id] = view.name

    def clear(self) -> None:
        """Forget all topics; the brokers stay known."""
        self.topics.clear()
        self.names.clear()

    def forget(self, topic: str) -> None:
        """Ask anew before the topic is next used."""
        view = self.topics.pop(topic, None)
        if view is not None:
            self.names.pop(view.topic_id, None)

    def led(self, place: TopicPartition) -> Led | None:
        """Who leads a partition, if that is known."""
        view = self.topics.get(place.topic)
        return None if view is None else view.partitions.get(place.partition)

    def hint(self, place: TopicPartition, node: int, epoch: int) -> bool:
        """A broker that does not lead a partition has said who does; whether that is news."""
        led = self.led(place)
        if led is None or node not in self.nodes or epoch < led.epoch:
            return False
        is_news = (led.node, led.epoch) != (node, epoch)
        led.node, led.epoch = node, epoch
        return is_news
