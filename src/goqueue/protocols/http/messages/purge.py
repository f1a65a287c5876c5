"""Removing messages from a topic that itself stays."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.http.api.errors import FieldError
from goqueue.protocols.http.api.paths import TopicPath
from goqueue.protocols.http.api.route import BrokerRoutes, route
from goqueue.protocols.http.api.shapes import Offset, PartitionNumber, doc
from goqueue.protocols.http.messages.message_shapes import PurgedPartition, PurgedTopic

_TAG: Final = "messages"


class PurgeMessagesQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which messages; all, unless something narrower is said."""

    confirm: Annotated[bool, doc("That one is sure.")] = False
    partition: Annotated[PartitionNumber | None, doc("Only this one.")] = None
    before: Annotated[
        Offset | None, doc("Messages below this offset; with a partition. All if left out.")
    ] = None


class PurgeRoutes(BrokerRoutes):
    """Purging."""

    @route("DELETE", "/topics/{topic}/messages", tag=_TAG)
    async def purge(self, path: TopicPath, query: PurgeMessagesQuery) -> PurgedTopic:
        """Remove messages for good, up to an offset or all; `confirm=true` says that one is sure.

        The topic stays, and its next message gets the offset that it would have got.
        """
        broker = self._broker
        topic = broker.topics.catalogue.topic(path.topic)
        if not query.confirm:
            raise _refused("confirm", "this removes messages for good: say confirm=true", "true")
        if query.before is not None and query.partition is None:
            raise _refused("partition", "an offset is a place in one partition", "a partition")
        numbers = range(topic.partition_count) if query.partition is None else [query.partition]
        places = [TopicPartition(topic.name, number) for number in numbers]
        starts = {each: broker.partitions.partition(each).log_start for each in places}
        purged = []
        for place, start in starts.items():
            begin = await broker.delete_records(place, query.before)
            purged.append(PurgedPartition(place.partition, begin, max(begin - start, 0)))
        return PurgedTopic(topic.name, sum(each.removed for each in purged), purged)


def _refused(field: str, message: str, expected: str) -> FieldError:
    return FieldError(message, field=field, location="query", expected=expected)
