"""Topics: create, list, describe, configure, grow, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import msgspec

from goqueue.model.errors import InvalidReplicationError
from goqueue.model.limits import MAX_TOPIC_PARTITIONS
from goqueue.protocols.http.api.errors import AtFieldError, FieldError
from goqueue.protocols.http.api.paths import TopicPath
from goqueue.protocols.http.api.places import LOCAL
from goqueue.protocols.http.api.rights import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER_CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    TOPIC_CREATE,
    TOPIC_DESCRIBE,
    on_topic,
    within,
)
from goqueue.protocols.http.api.route import BrokerRoutes, route
from goqueue.protocols.http.api.shapes import TopicName, doc
from goqueue.protocols.http.topics.topic_shapes import (
    Deleted,
    PartitionInfo,
    PartitionList,
    SettingInfo,
    TopicInfo,
    TopicList,
    TopicSettingsAnswer,
)
from goqueue.protocols.permissions import Permissions
from goqueue.topics.replica_assignments import Replication, check_assignments, check_factor
from goqueue.topics.setting_table import LISTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.cluster.facts import PartitionFacts
    from goqueue.model.errors import GoQueueError
    from goqueue.partitions.elsewhere.figures import Figures
    from goqueue.topics.catalogue import Topic

_HOUR_MS: Final = 3_600_000
_TAG: Final = "topics"

Setting: TypeAlias = str | int | float | bool
Settings: TypeAlias = Annotated[
    dict[str, Setting],
    doc("Settings under Kafka's names.", {"retention.ms": 3_600_000, "cleanup.policy": "delete"}),
]


class CreateTopic(msgspec.Struct, forbid_unknown_fields=True):
    """A topic to create."""

    name: TopicName
    num_partitions: Annotated[
        int | None, doc("Partition count; the server's default if omitted.", 3)
    ] = None
    retention_hours: (
        Annotated[int, doc("Retention; -1 for no limit.", 168, ge=-1, le=876_000)] | None
    ) = None
    replication_factor: Annotated[
        int | None,
        doc("Replicas of each partition; the server's default if omitted, 1 on a single node.", 1),
    ] = None
    settings: Settings = {}


class PatchTopic(msgspec.Struct, forbid_unknown_fields=True):
    """Settings to be changed; the others stay as they are."""

    settings: Annotated[
        dict[str, Setting | None],
        doc("The changes; null resets a setting to its default.", {"retention.ms": 60_000}),
    ]


class PutTopic(msgspec.Struct, forbid_unknown_fields=True):
    """All overrides of the topic."""

    settings: Settings


class GrowTopic(msgspec.Struct, forbid_unknown_fields=True):
    """The new partition count."""

    count: Annotated[int, doc("The total count, old and new.", 6, ge=1, le=MAX_TOPIC_PARTITIONS)]
    replica_assignments: Annotated[
        Annotated[list[list[int]], msgspec.Meta(max_length=MAX_TOPIC_PARTITIONS)] | None,
        doc(
            "The nodes of each new partition, the leader first; chosen by the broker if omitted.",
            [[1], [1], [1]],
        ),
    ] = None


class ListTopics(msgspec.Struct, forbid_unknown_fields=True):
    """Which topics to list."""

    internal: Annotated[bool, doc("Include internal topics.")] = False
    details: Annotated[bool, doc("Describe each topic.")] = False


_UNKNOWN: Final = -1
"""The leader of a partition that has none, and offsets of one that has no replica here."""


class TopicRoutes(BrokerRoutes):
    """Topics."""

    @route(
        "POST",
        "/topics",
        right=within(CLUSTER_CREATE, TOPIC_CREATE),
        tag=_TAG,
        status=201,
        place=LOCAL,
    )
    async def create(self, body: CreateTopic, may: Permissions) -> TopicInfo:
        """Create a topic."""
        if not may.allows(CLUSTER_CREATE):
            may.require(TOPIC_CREATE, body.name)
        settings = {name: text_of(value) for name, value in body.settings.items()}
        if body.retention_hours is not None:
            if "retention.ms" in settings:
                raise FieldError(
                    "retention_hours and settings['retention.ms'] are both given, expected one",
                    field="retention_hours",
                    expected="one of the two",
                )
            hours = body.retention_hours
            settings["retention.ms"] = str(-1 if hours < 0 else hours * _HOUR_MS)
        await self._create(body, settings)
        return await self._exact_info(body.name)

    async def _create(self, body: CreateTopic, settings: dict[str, str]) -> None:
        broker = self._broker
        replication = Replication(body.replication_factor)
        try:
            if not broker.facts.is_cluster:
                check_factor(body.replication_factor)
            topic = await broker.create_topic(body.name, body.num_partitions, settings, replication)
        except InvalidReplicationError as error:
            raise AtFieldError(error, "replication_factor") from error
        if broker.facts.is_cluster:
            await broker.topic_changes.opened(topic)

    @route(
        "GET",
        "/topics",
        right=within(TOPIC_DESCRIBE, note="the topics that it covers"),
        tag=_TAG,
        place=LOCAL,
    )
    async def list_all(self, query: ListTopics, may: Permissions) -> TopicList:
        """List the topics."""
        known = self._broker.topics.catalogue.by_name.values()
        topics = may.visible(TOPIC_DESCRIBE, known, lambda topic: topic.name)
        found = sorted(topic.name for topic in topics if query.internal or not topic.is_internal)
        if not query.details:
            return TopicList(found)
        return TopicList(found, [self._known_info(name) for name in found])

    @route("GET", "/topics/{topic}", right=on_topic(DESCRIBE), tag=_TAG, place=LOCAL)
    async def describe(self, path: TopicPath) -> TopicInfo:
        """Describe a topic: partitions, watermarks, settings."""
        return await self._exact_info(path.topic)

    @route(
        "GET", "/topics/{topic}/settings", right=on_topic(DESCRIBE_CONFIGS), tag=_TAG, place=LOCAL
    )
    async def settings(self, path: TopicPath) -> TopicSettingsAnswer:
        """List the settings of a topic with their values and sources."""
        settings = self._broker.topics.catalogue.topic(path.topic).settings
        return TopicSettingsAnswer(
            path.topic,
            [
                SettingInfo(
                    each.name,
                    settings.text(each.name),
                    settings.defaults.get(each.name, each.default),
                    "topic" if each.name in settings.overrides else "default",
                    each.documentation,
                    each.kind,
                    each.effect.value,
                    each.note,
                )
                for each in sorted(LISTED, key=lambda each: each.name)
            ],
        )

    @route("PATCH", "/topics/{topic}", right=on_topic(ALTER_CONFIGS), tag=_TAG, place=LOCAL)
    async def change(self, path: TopicPath, body: PatchTopic) -> TopicInfo:
        """Change some settings of a topic."""
        current = self._broker.topics.catalogue.topic(path.topic).settings.overrides
        changed = {**current, **body.settings}
        kept = {name: text_of(value) for name, value in changed.items() if value is not None}
        await self._broker.configure_topic(path.topic, kept)
        return await self._exact_info(path.topic)

    @route("PUT", "/topics/{topic}", right=on_topic(ALTER_CONFIGS), tag=_TAG, place=LOCAL)
    async def configure(self, path: TopicPath, body: PutTopic) -> TopicInfo:
        """Replace all settings of a topic; omitted ones are reset to their defaults."""
        settings = {name: text_of(value) for name, value in body.settings.items()}
        await self._broker.configure_topic(path.topic, settings)
        return await self._exact_info(path.topic)

    @route("DELETE", "/topics/{topic}", right=on_topic(DELETE), tag=_TAG, place=LOCAL)
    async def delete(self, path: TopicPath) -> Deleted:
        """Delete a topic with its messages and its committed offsets."""
        await self._broker.delete_topic(path.topic)
        return Deleted(path.topic)

    @route("GET", "/topics/{topic}/partitions", right=on_topic(DESCRIBE), tag=_TAG, place=LOCAL)
    async def partitions(self, path: TopicPath) -> PartitionList:
        """The partitions of a topic."""
        return PartitionList(path.topic, (await self._exact_info(path.topic)).partitions)

    @route("POST", "/topics/{topic}/partitions", right=on_topic(ALTER), tag=_TAG, place=LOCAL)
    @route(
        "POST", "/admin/topics/{topic}/partitions", right=on_topic(ALTER), tag="admin", place=LOCAL
    )
    async def grow(self, path: TopicPath, body: GrowTopic) -> TopicInfo:
        """Add partitions to a topic.

        Consumer groups are assigned the new partitions. Keys may map to other
        partitions from now on.
        """
        replication = Replication(assignments=body.replica_assignments)
        if body.replica_assignments is not None and not self._broker.facts.is_cluster:
            topic = self._broker.topics.plan_growth(path.topic, body.count)
            new_count = body.count - topic.partition_count
            node_id = self._broker.settings.node_id
            check_assignments(body.replica_assignments, node_id, new_count)
        await self._broker.grow_topic(path.topic, body.count, replication)
        return await self._exact_info(path.topic)

    async def _exact_info(self, name: str) -> TopicInfo:
        topic = self._broker.topics.catalogue.topic(name)
        return self._info(topic, await self._broker.figures.exact(topic))

    def _known_info(self, name: str) -> TopicInfo:
        topic = self._broker.topics.catalogue.topic(name)
        return self._info(topic, self._broker.figures.of_topic(topic))

    def _info(self, topic: Topic, figures: Sequence[Figures | None]) -> TopicInfo:
        partitions = self._broker.partitions.of_topic(topic)
        failures = {each.id.partition: each.failure for each in partitions}
        known = [each for each in figures if each is not None]
        return TopicInfo(
            name=topic.name,
            topic_id=str(topic.topic_id),
            internal=topic.is_internal,
            num_partitions=topic.partition_count,
            total_messages=sum(each.message_count for each in known),
            size_bytes=sum(each.size_bytes for each in known),
            settings=dict(topic.settings.overrides),
            partitions=[
                _partition_info(
                    number,
                    self._broker.facts.partition(topic.topic_id, number),
                    figures[number],
                    failures.get(number),
                )
                for number in range(topic.partition_count)
            ],
        )


def text_of(value: Setting) -> str:
    """A setting as Kafka writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _partition_info(
    number: int, facts: PartitionFacts, figures: Figures | None, failure: GoQueueError | None
) -> PartitionInfo:
    return PartitionInfo(
        partition=number,
        leader=_UNKNOWN if facts.leader is None else facts.leader,
        replicas=list(facts.replicas),
        isr=list(facts.isr),
        version=facts.epoch,
        earliest_offset=_UNKNOWN if figures is None else figures.log_start,
        latest_offset=_UNKNOWN if figures is None else figures.log_end,
        high_watermark=_UNKNOWN if figures is None else figures.high_watermark,
        size_bytes=0 if figures is None else figures.size_bytes,
        failure=None if failure is None else str(failure),
    )
