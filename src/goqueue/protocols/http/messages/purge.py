"""Removing messages from a topic that itself stays."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.http.api.errors import FieldError
from goqueue.protocols.http.api.paths import TopicPath
from goqueue.protocols.http.api.places import LOCAL
from goqueue.protocols.http.api.rights import DELETE, on_topic
from goqueue.protocols.http.api.route import BrokerRoutes, route
from goqueue.protocols.http.api.shapes import Offset, PartitionNumber, doc
from goqueue.protocols.http.messages.message_shapes import PurgedPartition, PurgedTopic

_TAG: Final = "messages"


class PurgeMessagesQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which messages to delete; all by default."""

    confirm: Annotated[bool, doc("Must be true.")] = False
    partition: Annotated[PartitionNumber | None, doc("Restrict to this one.")] = None
    before: Annotated[
        Offset | None,
        doc("Delete messages below this offset; requires a partition. All if omitted."),
    ] = None


class PurgeRoutes(BrokerRoutes):
    """Purging."""

    @route("DELETE", "/topics/{topic}/messages", right=on_topic(DELETE), tag=_TAG, place=LOCAL)
    async def purge(self, path: TopicPath, query: PurgeMessagesQuery) -> PurgedTopic:
        """Delete messages up to an offset, or all; requires `confirm=true`.

        The topic stays, and its next offset does not change.
        """
        broker = self._broker
        topic = broker.topics.catalogue.topic(path.topic)
        if not query.confirm:
            raise _refused(
                "confirm", "this deletes messages permanently: confirm with confirm=true", "true"
            )
        if query.before is not None and query.partition is None:
            raise _refused("partition", "an offset requires a partition", "a partition")
        numbers = range(topic.partition_count) if query.partition is None else [query.partition]
        places = [TopicPartition(topic.name, number) for number in numbers]
        starts = {each: (await broker.positions.ends(each)).log_start for each in places}
        purged = []
        for place, start in starts.items():
            begin = await broker.record_deletion.delete(place, query.before)
            purged.append(PurgedPartition(place.partition, begin, max(begin - start, 0)))
        return PurgedTopic(topic.name, sum(each.removed for each in purged), purged)


def _refused(field: str, message: str, expected: str) -> FieldError:
    return FieldError(message, field=field, location="query", expected=expected)
