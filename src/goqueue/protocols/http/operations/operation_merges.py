"""What the nodes of a cluster tell operators, in one answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from goqueue.protocols.http.api.merging import summed
from goqueue.protocols.http.operations.operation_shapes import (
    MaintenanceResumed,
    MaintenanceStatus,
    Stats,
)

if TYPE_CHECKING:
    from goqueue.protocols.http.api.parts import Part
    from goqueue.protocols.http.api.places import Arguments
    from goqueue.protocols.http.operations.admin_shapes import (
        CompactAnswer,
        Coordinators,
        ScalingStatus,
    )
    from goqueue.protocols.http.operations.cluster_shapes import ClusterMetrics


def merge_stats(parts: list[Part], _arguments: Arguments) -> Stats:
    """Totals of the cluster, as the node that was asked sees it.

    Each node knows the sizes of all partitions, and counts what is published to those it leads.
    """
    answers: list[Stats] = [each.answer for each in parts]
    first, whole = answers[0], summed(answers)
    return msgspec.structs.replace(
        whole,
        node_id=first.node_id,
        uptime_s=first.uptime_s,
        topic_count=first.topic_count,
        failed_partitions=sorted({name for each in answers for name in each.failed_partitions}),
        topics={
            name: msgspec.structs.replace(
                topic,
                published_per_s=whole.topics[name].published_per_s,
                failed_partitions=whole.topics[name].failed_partitions,
            )
            for name, topic in first.topics.items()
        },
    )


def merge_metrics(parts: list[Part], _arguments: Arguments) -> ClusterMetrics:
    """Those of each node."""
    first: ClusterMetrics = parts[0].answer
    return msgspec.structs.replace(first, nodes=[n for each in parts for n in each.answer.nodes])


def merge_compacted(parts: list[Part], _arguments: Arguments) -> CompactAnswer:
    """The partitions that each node leads."""
    first: CompactAnswer = parts[0].answer
    found = [partition for each in parts for partition in each.answer.partitions]
    found.sort(key=lambda each: each.partition)
    return msgspec.structs.replace(first, partitions=found)


def merge_scaling(parts: list[Part], _arguments: Arguments) -> ScalingStatus:
    """What the node says that adds the partitions."""
    answers: list[ScalingStatus] = [each.answer for each in parts]
    return next((each for each in answers if each.in_progress), answers[0])


def merge_coordinators(parts: list[Part], _arguments: Arguments) -> Coordinators:
    """Each node counts the groups that it coordinates."""
    first: Coordinators = parts[0].answer
    counts = {each.partition: 0 for each in first.coordinators}
    for part in parts:
        for each in part.answer.coordinators:
            counts[each.partition] = counts.get(each.partition, 0) + each.group_count
    lines = [
        msgspec.structs.replace(each, group_count=counts[each.partition])
        for each in first.coordinators
    ]
    return msgspec.structs.replace(first, coordinators=lines)


def merge_maintenance(parts: list[Part], _arguments: Arguments) -> MaintenanceStatus:
    """Stopped when it is on some node; the reason names each."""
    stopped = [each for each in parts if each.answer.status != "running"]
    if not stopped:
        return MaintenanceStatus("running")
    reasons = (f"node {each.node_id}: {each.answer.reason}" for each in stopped)
    jumps = [each.answer.clock_jump_ms for each in stopped]
    return MaintenanceStatus("stopped", "; ".join(reasons), max(jumps, key=abs))


def merge_resumed(parts: list[Part], _arguments: Arguments) -> MaintenanceResumed:
    """Whether it was stopped anywhere, and the largest jump."""
    answers: list[MaintenanceResumed] = [each.answer for each in parts]
    jump_ms = max((each.accepted_jump_ms for each in answers), key=abs)
    return MaintenanceResumed(any(each.resumed for each in answers), jump_ms)
