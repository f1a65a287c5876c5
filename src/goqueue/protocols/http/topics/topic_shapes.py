"""What is asked and answered about topics."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from goqueue.protocols.http.api.shapes import PartitionNumber, doc


class PartitionInfo(msgspec.Struct):
    """One partition: its replicas and watermarks."""

    partition: PartitionNumber
    leader: Annotated[int, doc("The leader; -1 while there is none.", 1)]
    replicas: list[int]
    isr: Annotated[list[int], doc("The in-sync replicas.", [1])]
    version: Annotated[int, doc("The leader epoch.", 0)]
    earliest_offset: Annotated[
        int, doc("The first offset; -1 where the node has no replica, as are the next two.", 0)
    ]
    latest_offset: Annotated[int, doc("Log end offset: the offset of the next message.", 120)]
    high_watermark: Annotated[int, doc("Consumers read up to this offset.", 120)]
    size_bytes: int
    failure: Annotated[str | None, doc("Why appends are refused; null if they are accepted.")]


class TopicInfo(msgspec.Struct):
    """A topic."""

    name: str
    topic_id: str
    internal: bool
    num_partitions: int
    total_messages: Annotated[
        int, doc("Offsets that can be read; what was compacted away counts along.", 360)
    ]
    size_bytes: int
    settings: Annotated[
        dict[str, str], doc("The settings that override defaults.", {"retention.ms": "3600000"})
    ]
    partitions: list[PartitionInfo]


class TopicList(msgspec.Struct):
    """The names of topics, in order."""

    topics: list[str]
    details: Annotated[
        list[TopicInfo] | msgspec.UnsetType,
        doc("The same topics described, if `details` was asked for."),
    ] = msgspec.UNSET


class PartitionList(msgspec.Struct):
    """The partitions of a topic."""

    topic: str
    partitions: list[PartitionInfo]


class SettingInfo(msgspec.Struct):
    """One setting of a topic."""

    name: Annotated[str, doc("The name in Kafka.", "retention.ms")]
    value: str
    default: Annotated[str, doc("The default.", "604800000")]
    source: Annotated[Literal["topic", "default"], doc("Where the value comes from.", "default")]
    description: str
    type: Annotated[str, doc("The type in Kafka.", "long")]
    effect: Annotated[
        Literal["obeyed", "no effect"],
        doc("`no effect`: it is checked, stored and shown, and changes nothing.", "obeyed"),
    ]
    note: Annotated[str, doc("Why it has no effect, or what is different from Kafka.", "")]


class TopicSettingsAnswer(msgspec.Struct):
    """All settings of a topic, by name."""

    topic: str
    settings: list[SettingInfo]


class Deleted(msgspec.Struct):
    """What was deleted."""

    deleted: str
