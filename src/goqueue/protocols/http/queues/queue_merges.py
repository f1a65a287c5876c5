"""What the nodes of a cluster tell of their queues and of when messages are due, in one answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.protocols.http.queues.delayed_shapes import TimelineAnswer
from goqueue.protocols.http.queues.queue_stats_shapes import PriorityStats

if TYPE_CHECKING:
    from goqueue.protocols.http.api.parts import Part
    from goqueue.protocols.http.api.places import Arguments


def merge_priorities(parts: list[Part], _arguments: Arguments) -> PriorityStats:
    """The lanes of the groups of all nodes, by group."""
    first: PriorityStats = parts[0].answer
    groups = {name: lanes for each in parts for name, lanes in each.answer.groups.items()}
    return PriorityStats(first.priorities, dict(sorted(groups.items())))


def merge_timelines(parts: list[Part], arguments: Arguments) -> TimelineAnswer:
    """The due times of all nodes over the longest of their ranges.

    Steps of a node whose last message is due earlier are shorter: a message is counted in the step
    in which its own one begins.
    """
    answers: list[TimelineAnswer] = [each.answer for each in parts]
    at = min(each.at for each in answers)
    step_ms = max(each.step_ms for each in answers)
    counts = [0] * arguments["query"].buckets
    later = sum(each.later for each in answers)
    for each in answers:
        for number, count in enumerate(each.counts):
            step = (each.at - at + number * each.step_ms) // step_ms
            if step < len(counts):
                counts[step] += count
            else:
                later += count
    is_exact = all(each.step_ms == step_ms and not each.approximate for each in answers)
    return TimelineAnswer(at, step_ms, counts, later, not is_exact)
