"""Committed offsets: commit, fetch, reset."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from goqueue.groups.messages import CommitRequest, OffsetToCommit, PartitionOutcomes
from goqueue.model.errors import GroupError, TopicError
from goqueue.model.lag import PartitionLag
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.http.api.codecs import time_ms
from goqueue.protocols.http.api.errors import AtFieldError, FieldError
from goqueue.protocols.http.api.paths import GroupPath
from goqueue.protocols.http.api.places import group
from goqueue.protocols.http.api.rights import (
    DESCRIBE,
    READ,
    TOPIC_DESCRIBE,
    all_of,
    on_group,
    on_topic,
    within,
)
from goqueue.protocols.http.api.route import BrokerRoutes, route
from goqueue.protocols.http.api.topic_maps import (
    committed_by_topic,
    lag_by_topic,
    log_ends_by_topic,
)
from goqueue.protocols.http.groups.group_shapes import (
    ALL_PARTITIONS,
    Change,
    CommitBody,
    Committed,
    OffsetsAnswer,
    OffsetsQuery,
    ResetAnswer,
    ResetBody,
)
from goqueue.protocols.permissions import Permissions
from goqueue.reading.positions import EARLIEST, LATEST, Anchor, Position

if TYPE_CHECKING:
    from collections.abc import Iterator


_TAG: Final = "offsets"
_MAX_DIGITS: Final = 11
"""Of the number of a partition, which is less than 2**31."""


class OffsetRoutes(BrokerRoutes):
    """Committed offsets."""

    @route(
        "POST",
        "/groups/{group}/offsets",
        right=all_of(on_group(READ), on_topic(READ, "body.offsets")),
        tag=_TAG,
        place=group(),
    )
    async def commit(self, path: GroupPath, body: CommitBody) -> Committed:
        """Commit offsets. A member may commit its own partitions only.

        In a queue group this acknowledges every message below the offsets,
        also those of other members.
        """
        offsets = self._checked(path.group, body)
        if body.member_id is None:
            await self._set(path.group, offsets)
        else:
            await self._commit(path.group, body.member_id, body.generation, offsets)
        return Committed(path.group, body.offsets)

    async def _commit(
        self,
        group_id: str,
        member_id: str,
        generation: int | None,
        offsets: dict[TopicPartition, int],
    ) -> None:
        broker = self._broker
        with self._refusals_counted(group_id):
            member = broker.queue_members.find(group_id, member_id, generation)
            if member is not None:
                await broker.acknowledger.commit(member, offsets)
                return
            owner = broker.memberships.member(group_id, member_id, generation)
        _raise_first(await broker.memberships.commit(owner, offsets))

    async def _set(self, group_id: str, offsets: dict[TopicPartition, int]) -> None:
        """Commit for a group without members."""
        queue_group = self._broker.queues.find(group_id)
        if queue_group is not None and not queue_group.is_dormant:
            with self._refusals_counted(group_id):
                await self._broker.group_administrator.set_offsets(group_id, offsets)
            return
        outcomes = await self._broker.groups.commit(
            CommitRequest(
                group_id=group_id,
                offsets=tuple(
                    OffsetToCommit(topic=each.topic, partition=each.partition, offset=offset)
                    for each, offset in offsets.items()
                ),
            )
        )
        _raise_first(outcomes)

    @contextmanager
    def _refusals_counted(self, group_id: str) -> Iterator[None]:
        """Count refusals of commits that do not come as far as the coordinator, which counts."""
        try:
            yield
        except GroupError as error:
            self._broker.groups.commit_refused(group_id, error)
            raise

    def _checked(self, group_id: str, body: CommitBody) -> dict[TopicPartition, int]:
        found = {}
        for topic, offsets in body.offsets.items():
            for number, offset in offsets.items():
                partition_id = TopicPartition(topic, number)
                try:
                    self._broker.topics.catalogue.require(partition_id)
                except TopicError as error:
                    self._broker.groups.commit_refused(group_id, error)
                    raise AtFieldError(error, f"offsets.{topic}.{number}") from error
                found[partition_id] = offset
        return found

    @route(
        "GET",
        "/groups/{group}/offsets",
        right=all_of(on_group(DESCRIBE), within(TOPIC_DESCRIBE, note="the topics that it covers")),
        tag=_TAG,
        place=group(),
    )
    async def fetch(self, path: GroupPath, query: OffsetsQuery, may: Permissions) -> OffsetsAnswer:
        """Committed offsets and lag of a group, by partition."""
        read = partial(self._lags, may, path.group, query.partitions)
        lags = await self._broker.groups.told(read, path.group)
        return OffsetsAnswer(
            path.group,
            committed_by_topic(lags),
            log_ends_by_topic(lags),
            lag_by_topic(lags),
            sum(each.lag for each in lags),
            sum(each.uncommitted_lag for each in lags),
        )

    def _lags(self, may: Permissions, group_id: str, partitions: str | None) -> list[PartitionLag]:
        if partitions is None:
            self._broker.group_views.view(group_id)  # an unknown group is refused, not empty
            lags = self._broker.lag.of(group_id)
            return may.visible(TOPIC_DESCRIBE, lags, lambda each: each.topic)
        committed = self._broker.lag.committed(group_id)
        found = []
        for text in partitions.split(","):
            place = _place(text)
            may.require(TOPIC_DESCRIBE, place.topic)
            figures = self._broker.figures.known(place)
            ends = figures.log_start, figures.log_end
            found.append(PartitionLag(*place, committed.get(place), *ends))
        return found

    @route(
        "POST",
        "/groups/{group}/offsets/reset",
        right=all_of(on_group(READ), on_topic(READ, "body.topic")),
        tag=_TAG,
        place=group(),
    )
    async def reset(self, path: GroupPath, body: ResetBody) -> ResetAnswer:
        """Reset the committed offsets of a group without members."""
        changes = await self._broker.group_administrator.reset_offsets(
            path.group,
            body.topic,
            _position(body),
            partitions=_chosen(body),
            dry_run=body.dry_run,
        )
        return ResetAnswer(
            path.group,
            body.dry_run,
            [
                Change(
                    each.topic,
                    each.partition,
                    each.before,
                    each.after,
                    each.log_start,
                    each.log_end,
                    each.skipped,
                    each.again,
                )
                for each in changes
            ],
        )


def _place(text: str) -> TopicPartition:
    topic, _, number = text.rpartition(":")
    if not topic or not (number.isascii() and number.isdecimal() and len(number) < _MAX_DIGITS):
        expected = "TOPIC:PARTITION, several with commas between them"
        raise FieldError(
            f"partitions has {text[:300]!r}, expected {expected}",
            field="partitions",
            location="query",
            expected=expected,
        )
    return TopicPartition(topic, int(number))


def _chosen(body: ResetBody) -> list[int] | None:
    """The partitions to be reset; None: all."""
    if body.partition == ALL_PARTITIONS:
        return body.partitions
    if body.partitions is not None:
        raise FieldError(
            "partition and partitions are both given, expected one",
            field="partitions",
            expected="one of the two",
        )
    return [body.partition]


def _position(body: ResetBody) -> Position:
    if body.strategy == "earliest":
        return EARLIEST
    if body.strategy == "latest":
        return LATEST
    if body.strategy == "offset" and body.offset is not None:
        return Position(Anchor.OFFSET, body.offset)
    if body.strategy == "timestamp" and body.timestamp is not None:
        return Position(Anchor.TIMESTAMP, time_ms(body.timestamp, "timestamp", location="body"))
    raise FieldError(
        f"strategy {body.strategy!r} needs {body.strategy!r} to say which",
        field=body.strategy,
        expected="a time" if body.strategy == "timestamp" else "an offset",
    )


def _raise_first(outcomes: PartitionOutcomes) -> None:
    for (topic, number), error in outcomes.partitions:
        if error is not None:
            raise AtFieldError(error, f"offsets.{topic}.{number}") from error
