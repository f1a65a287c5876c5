"""`client.topics`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.client.administration.calls import Calls
from goqueue.client.types import Partition, Topic
from goqueue.model.errors import InvalidPartitionCountError
from goqueue.model.limits import MAX_TOPIC_PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from goqueue.client.link.link import Link

_COMPACTION_S: Final = 600.0
"""How much longer than other requests a compaction may take."""


class TopicSetting(msgspec.Struct, frozen=True):
    """One setting of a topic, under Kafka's name."""

    name: str
    value: str
    default: str
    source: str
    """`topic` where it was set for this topic, or `default`."""
    description: str
    type: str
    effect: str = "obeyed"
    """`obeyed`, or `no effect`: it is stored and shown, and changes nothing."""
    note: str = ""
    """Why it has no effect, or what is different from Kafka."""


class Compaction(msgspec.Struct, frozen=True):
    """The compaction of one partition; what a dry run does not know is None."""

    partition: int
    dirty_ratio: float
    is_due: bool = msgspec.field(name="due")
    bytes_before: int
    bytes_after: int | None
    records_before: int | None
    records_after: int | None
    duration_ms: int | None


class _Partition(msgspec.Struct):
    partition: int
    earliest_offset: int
    latest_offset: int
    size_bytes: int


class _Topic(msgspec.Struct):
    name: str
    topic_id: str
    internal: bool
    settings: dict[str, str]
    partitions: list[_Partition]


class _Topics(msgspec.Struct):
    details: list[_Topic]


class _Settings(msgspec.Struct):
    settings: tuple[TopicSetting, ...]


class _Purged(msgspec.Struct):
    removed: int


class _Compacted(msgspec.Struct):
    partitions: tuple[Compaction, ...]


class AsyncTopics:
    """`client.topics`."""

    def __init__(self, link: Link) -> None:
        self._calls = Calls(link)

    async def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Topic:
        """Make a topic, with the broker's number of partitions unless told otherwise."""
        body = {"name": name, "num_partitions": partitions, "settings": dict(settings or {})}
        return _topic(await self._calls.post(_Topic, "/topics", body=body))

    async def list(self, *, include_internal: bool = False) -> list[Topic]:
        """Every topic, by name."""
        found = await self._calls.get(_Topics, "/topics", details=True, internal=include_internal)
        return [_topic(each) for each in found.details]

    async def describe(self, name: str) -> Topic:
        """One topic."""
        return _topic(await self._calls.get(_Topic, "/topics/{}", name))

    async def settings(self, name: str) -> tuple[TopicSetting, ...]:
        """Every setting of a topic with the value in force, and where that comes from."""
        return (await self._calls.get(_Settings, "/topics/{}/settings", name)).settings

    async def configure(
        self,
        name: str,
        settings: Mapping[str, str] | None = None,
        *,
        unset: Iterable[str] = (),
    ) -> Topic:
        """Set some settings and take others back; those not named stay."""
        changes: dict[str, str | None] = dict(settings or {})
        for each in unset:
            if each in changes:
                raise ValueError(f"unset: {each} cannot be set and unset at once")
            changes[each] = None
        return _topic(await self._calls.patch(_Topic, "/topics/{}", name, {"settings": changes}))

    async def grow(self, name: str, partitions: int) -> Topic:
        """Give a topic more partitions, so many in all."""
        if not 1 <= partitions <= MAX_TOPIC_PARTITIONS:
            raise InvalidPartitionCountError(
                f"partitions: {partitions}, expected 1 to {MAX_TOPIC_PARTITIONS}"
            )
        body = {"count": partitions}
        return _topic(await self._calls.post(_Topic, "/topics/{}/partitions", name, body=body))

    async def delete(self, name: str) -> None:
        """Forget a topic and its messages."""
        await self._calls.delete(msgspec.Raw, "/topics/{}", name)

    async def purge(
        self, name: str, *, partition: int | None = None, before: int | None = None
    ) -> int:
        """Delete messages for good; the topic stays, and so does its next offset.

        Args:
            name: The topic.
            partition: Only of this partition.
            before: Only those before this offset of the partition.

        Returns:
            How many offsets were deleted.
        """
        found = await self._calls.delete(
            _Purged, "/topics/{}/messages", name, confirm=True, partition=partition, before=before
        )
        return found.removed

    async def compact(
        self, name: str, *, partitions: Sequence[int] | None = None, dry_run: bool = False
    ) -> tuple[Compaction, ...]:
        """Reduce a topic to the newest message of each key, now; or say what that would do."""
        chosen = None if partitions is None else [*partitions]
        found = await self._calls.post(
            _Compacted,
            "/admin/topics/{}/compact",
            name,
            body={"partitions": chosen, "dry_run": dry_run},
            wait_s=_COMPACTION_S,
        )
        return found.partitions


def _topic(topic: _Topic) -> Topic:
    return Topic(
        topic.name,
        topic.topic_id,
        topic.internal,
        topic.settings,
        tuple(
            Partition(each.partition, each.earliest_offset, each.latest_offset, each.size_bytes)
            for each in topic.partitions
        ),
    )
