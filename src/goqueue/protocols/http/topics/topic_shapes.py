"""What is asked and answered about topics."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from goqueue.protocols.http.api.shapes import Offset, PartitionNumber, doc


class TopicList(msgspec.Struct):
    """The names of topics, in order."""

    topics: list[str]


class PartitionInfo(msgspec.Struct):
    """One partition: where it is, and what it holds."""

    partition: PartitionNumber
    leader: Annotated[int, doc("The node that reads and writes it.", 1)]
    replicas: list[int]
    isr: Annotated[list[int], doc("The replicas that have everything.", [1])]
    version: Annotated[int, doc("The leader's epoch.", 0)]
    earliest_offset: Offset
    latest_offset: Annotated[int, doc("The offset that the next message gets.", 120)]
    high_watermark: Annotated[int, doc("Readers see what is below.", 120)]
    size_bytes: int
    failure: Annotated[str | None, doc("Why nothing can be published, if so.")]


class TopicInfo(msgspec.Struct):
    """One topic as it is now."""

    name: str
    topic_id: str
    internal: bool
    num_partitions: int
    total_messages: Annotated[
        int, doc("Offsets that can be read; what was compacted away counts along.", 360)
    ]
    size_bytes: int
    settings: Annotated[
        dict[str, str], doc("Those that were set for this topic.", {"retention.ms": "3600000"})
    ]
    partitions: list[PartitionInfo]


class PartitionList(msgspec.Struct):
    """The partitions of a topic."""

    topic: str
    partitions: list[PartitionInfo]


class SettingInfo(msgspec.Struct):
    """One setting of a topic, as it is in force."""

    name: Annotated[str, doc("Kafka's name for it.", "retention.ms")]
    value: str
    default: Annotated[str, doc("What it is where a topic has none of its own.", "604800000")]
    source: Annotated[Literal["topic", "default"], doc("Where the value comes from.", "default")]
    description: str
    type: Annotated[str, doc("As Kafka's tools call it.", "long")]


class TopicSettingsAnswer(msgspec.Struct):
    """All settings of a topic, by name."""

    topic: str
    settings: list[SettingInfo]


class Deleted(msgspec.Struct):
    """What is gone."""

    deleted: str
