"""Parts of requests and answers that several resources share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec

from goqueue.model.errors import InvalidTopicNameError
from goqueue.partitions.partition import PartitionId
from goqueue.protocols.http.errors import AtFieldError
from goqueue.topics.catalogue import check_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.model.lag import PartitionLag


def doc(description: str, *examples: Any, **constraints: Any) -> msgspec.Meta:
    """What a field is, for the document that describes the API."""
    return msgspec.Meta(
        description=description, examples=list(examples) if examples else None, **constraints
    )


TopicName: TypeAlias = Annotated[
    str,
    doc(
        "1 to 249 letters, digits, `.`, `_` and `-`, not `.` or `..`.",
        "orders",
        extra_json_schema={"pattern": "^[a-zA-Z0-9._-]{1,249}$"},
    ),
]
GroupName: TypeAlias = Annotated[str, doc("The group.", "billing", min_length=1, max_length=249)]
MemberId: TypeAlias = Annotated[
    str, doc("As `join` answered it.", "worker-1-5f0c", min_length=1, max_length=512)
]
Generation: TypeAlias = Annotated[
    int,
    doc(
        "Counts the group's assignments; a request of an older one is refused.",
        3,
        ge=0,
        le=2**31 - 1,
    ),
]
PartitionNumber: TypeAlias = Annotated[int, doc("A partition.", 0, ge=0, le=2**31 - 1)]
Offset: TypeAlias = Annotated[int, doc("A place in a partition.", 42, ge=0, le=2**63 - 1)]
Milliseconds: TypeAlias = Annotated[
    int, doc("Since the Unix epoch, in milliseconds.", 1767225600000)
]
PartitionsByTopic: TypeAlias = Annotated[
    dict[str, list[int]], doc("Partitions by topic.", {"orders": [0, 2]})
]
OffsetsByTopic: TypeAlias = Annotated[
    dict[str, dict[int, int]],
    doc(
        "By topic and partition; partitions are strings, as all keys of JSON.",
        {"orders": {"0": 42}},
    ),
]

CommittedByTopic: TypeAlias = Annotated[
    dict[str, dict[int, int | None]],
    doc(
        "Committed offsets by topic and partition; null where the group has committed nothing.",
        {"orders": {"0": 42, "1": None}},
    ),
]
LagByTopic: TypeAlias = Annotated[
    OffsetsByTopic,
    doc(
        "Messages between where the group continues and the end of the log. Where nothing is "
        "committed it counts from the log start, which is an upper bound.",
        {"orders": {"0": 3, "1": 120}},
    ),
]
UncommittedLag: TypeAlias = Annotated[
    int, doc("The part of the lag in partitions that the group has committed nothing of.", 0)
]


class TopicPath(msgspec.Struct, frozen=True):
    """A topic in the path."""

    topic: TopicName

    def __post_init__(self) -> None:
        checked_name(self.topic, "topic", "path")


class PartitionPath(TopicPath, frozen=True):
    """A partition in the path."""

    partition: PartitionNumber


class GroupPath(msgspec.Struct, frozen=True):
    """A group in the path."""

    group: GroupName


def checked_name(name: str, field: str, location: str = "body") -> str:
    """A topic's name that follows the rule.

    Raises:
        AtFieldError: it does not.
    """
    try:
        check_name(name)
    except InvalidTopicNameError as error:
        raise AtFieldError(error, field, location) from error
    return name


def by_topic(partitions: Iterable[PartitionId]) -> dict[str, list[int]]:
    """Partitions as JSON shows them: numbers by topic, in order."""
    found: dict[str, list[int]] = {}
    for each in sorted(partitions, key=lambda each: (each.topic, each.number)):
        found.setdefault(each.topic, []).append(each.number)
    return found


def offsets_by_topic(offsets: Iterable[tuple[PartitionId, int]]) -> dict[str, dict[int, int]]:
    """Offsets as JSON shows them: by topic and partition."""
    found: dict[str, dict[int, int]] = {}
    for partition, offset in offsets:
        found.setdefault(partition.topic, {})[partition.number] = offset
    return found


def committed_by_topic(lags: Iterable[PartitionLag]) -> dict[str, dict[int, int | None]]:
    """Committed offsets as JSON shows them; None where there is none."""
    found: dict[str, dict[int, int | None]] = {}
    for each in lags:
        found.setdefault(each.topic, {})[each.partition] = each.committed
    return found


def lag_by_topic(lags: Iterable[PartitionLag]) -> dict[str, dict[int, int]]:
    """Lag as JSON shows it: by topic and partition."""
    return offsets_by_topic((PartitionId(each.topic, each.partition), each.lag) for each in lags)
