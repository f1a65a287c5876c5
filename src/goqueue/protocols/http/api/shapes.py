"""Parts of requests and answers that several resources share."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import msgspec

from goqueue.model.delivery import Priority


def doc(description: str, *examples: Any, **constraints: Any) -> msgspec.Meta:
    """What a field is, for the document that describes the API."""
    return msgspec.Meta(
        description=description, examples=list(examples) if examples else None, **constraints
    )


LANES: Final = [priority.label for priority in Priority]
"""The lanes of a queue, the most urgent first."""

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
    str, doc("From the response of `join`.", "worker-1-5f0c", min_length=1, max_length=512)
]
Generation: TypeAlias = Annotated[
    int,
    doc(
        "Incremented by every assignment; a request with an older one is refused.",
        3,
        ge=0,
        le=2**31 - 1,
    ),
]
PartitionNumber: TypeAlias = Annotated[int, doc("A partition.", 0, ge=0, le=2**31 - 1)]
Offset: TypeAlias = Annotated[int, doc("An offset in a partition.", 42, ge=0, le=2**63 - 1)]
Milliseconds: TypeAlias = Annotated[int, doc("Milliseconds since the Unix epoch.", 1767225600000)]
PartitionsByTopic: TypeAlias = Annotated[
    dict[str, list[int]], doc("Partitions by topic.", {"orders": [0, 2]})
]
OffsetsByTopic: TypeAlias = Annotated[
    dict[str, dict[int, int]],
    doc(
        "By topic and partition; partition numbers are strings, as JSON keys.",
        {"orders": {"0": 42}},
    ),
]

CommittedByTopic: TypeAlias = Annotated[
    dict[str, dict[int, int | None]],
    doc(
        "Committed offsets by topic and partition; null without a commit.",
        {"orders": {"0": 42, "1": None}},
    ),
]
LogEndsByTopic: TypeAlias = Annotated[
    OffsetsByTopic,
    doc("Log end offsets by topic and partition.", {"orders": {"0": 45, "1": 120}}),
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
    int, doc("The part of the lag in partitions without a committed offset.", 0)
]
