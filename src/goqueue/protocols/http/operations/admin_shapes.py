"""What operators ask for and are answered."""

from __future__ import annotations

from typing import Annotated

import msgspec

from goqueue.protocols.http.api.gathered import Gathered
from goqueue.protocols.http.api.shapes import doc


class CompactBody(msgspec.Struct, forbid_unknown_fields=True):
    """What to compact."""

    partitions: Annotated[list[int] | None, doc("All if omitted.", [0])] = None
    dry_run: Annotated[bool, doc("Return the plan without compacting.")] = False


class CompactedPartition(msgspec.Struct):
    """The result of one compaction; for a dry run, its plan."""

    partition: int
    dirty_ratio: Annotated[float, doc("Dirty bytes of the sealed segments.", 0.6)]
    due: Annotated[bool, doc("Whether the partition is due for compaction.")]
    bytes_before: int
    bytes_after: int | None
    records_before: int | None
    records_after: int | None
    duration_ms: int | None


class CompactAnswer(Gathered):
    """One result for each partition."""

    topic: str
    dry_run: bool
    partitions: list[CompactedPartition]


class ScalingStatus(Gathered):
    """Whether the topic is being grown."""

    topic: str
    in_progress: Annotated[bool, doc("Whether partitions are being added now.")]
    num_partitions: int
    target_partitions: Annotated[
        int | None, doc("The new partition count; null if none are being added.")
    ]


class Coordinator(msgspec.Struct):
    """One partition of the offsets topic, and its leader."""

    partition: int
    node_id: int
    group_count: int


class Coordinators(Gathered):
    """Where groups are coordinated."""

    topic: str
    coordinators: list[Coordinator]


class GroupCoordinatorAnswer(msgspec.Struct):
    """Where one group is coordinated, whether it exists or not."""

    group: str
    topic: str
    partition: int
    node_id: int
