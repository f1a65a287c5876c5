"""A cluster at a glance: what its nodes know of themselves, in one answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.insight.overview import HistoryView
from goqueue.insight.vitals import Percentiles
from goqueue.protocols.http.api.merging import summed
from goqueue.protocols.http.api.parts import Part, Parts
from goqueue.protocols.http.api.requests import Request
from goqueue.protocols.http.operations.attention import Attention, most_urgent
from goqueue.protocols.http.operations.fresh import Fresh
from goqueue.protocols.http.operations.history_merges import largest_values, summed_values
from goqueue.protocols.http.operations.overview import OverviewSource
from goqueue.protocols.http.operations.overview_answer import (
    HealthOut,
    LatenciesOut,
    NodeOverview,
    Overview,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goqueue.insight.overview import Totals
    from goqueue.protocols.http.api.served_node import ServedNode
    from goqueue.topics.forwarding import Forwards

_REQUEST: Final = b"/overview"
_WORST_FIRST: Final = ("stopping", "read_only", "degraded", "ready")


class ClusterOverviewSource(OverviewSource):
    """The overview of all nodes, gathered at most once a second for all clients."""

    def __init__(self, node: ServedNode, forwards: Forwards) -> None:
        super().__init__(node)
        self._forwards = forwards
        self._whole = Fresh(node.broker.clock, self._gather)

    async def read(self) -> bytes:
        """The overview of all nodes, no older than `FRESH_S`."""
        return await self._whole.read()

    async def look_elsewhere(self) -> None:
        """Learn what has changed on other nodes."""
        await self.read()

    async def _gather(self) -> Overview:
        broker = self._node.broker
        parts = Parts(broker.routes.node_id)
        await parts.own(self.part(), ())
        request = Request("GET", _REQUEST)
        decode = msgspec.json.Decoder(Overview).decode
        await parts.others(self._forwards, broker.facts, request, decode, ())
        self.elsewhere = _marks(parts.found[1:])
        return merged(parts)


def _marks(others: Iterable[Part]) -> dict[str, object]:
    """What other nodes say of each list: one value that changes when one of theirs does."""
    found: dict[str, list[tuple[int, int]]] = {}
    for node_id, answer in others:
        for name, mark in answer.marks.items():
            found.setdefault(name, []).append((node_id, mark))
    return dict(found)


def merged(parts: Parts) -> Overview:
    """The overviews of nodes as one."""
    answers: list[Overview] = [each.answer for each in parts.found]
    first = answers[0]
    return msgspec.structs.replace(
        first,
        health=_health(parts, first),
        rates=summed([each.rates for each in answers]),
        latency_ms=_latencies([each.latency_ms for each in answers]),
        totals=_totals([each.totals for each in answers]),
        attention=_attention(parts.found),
        history=_history([each.history for each in answers]),
        nodes=sorted((_node(each) for each in answers), key=lambda each: each.node_id),
        marks=msgspec.UNSET,
        unanswered=parts.unanswered or msgspec.UNSET,
    )


def _node(answer: Overview) -> NodeOverview:
    return NodeOverview(
        answer.node_id,
        answer.version,
        answer.uptime_ms,
        answer.health.status,
        answer.disk,
        answer.process,
    )


def _health(parts: Parts, first: Overview) -> HealthOut:
    """The worst of all nodes; a node that did not answer makes the cluster a degraded one."""
    checks = dict(first.health.checks)
    statuses = [first.health.status]
    for node_id, answer in parts.found[1:]:
        statuses.append(answer.health.status)
        troubles = [
            f"{name}: {each}" for name, each in answer.health.checks.items() if each != "ok"
        ]
        checks[f"node {node_id}"] = "; ".join(troubles) or "ok"
    for missing in parts.unanswered:
        statuses.append("degraded")
        checks[f"node {missing.node_id}"] = missing.error
    return HealthOut(min(statuses, key=_WORST_FIRST.index), checks)


def _totals(parts: Sequence[Totals]) -> Totals:
    """What each node counts for itself is added; what each counts for all is not."""
    return msgspec.structs.replace(
        summed(list(parts)),
        topics=parts[0].topics,
        partitions=parts[0].partitions,
        messages=parts[0].messages,
        bytes=parts[0].bytes,
        subjects=max(each.subjects for each in parts),
        dead_letters=max(each.dead_letters for each in parts),
    )


def _latencies(parts: Sequence[LatenciesOut]) -> LatenciesOut:
    def worst(kinds: Iterable[Percentiles]) -> Percentiles:
        columns = zip(*((each.p50, each.p95, each.p99) for each in kinds), strict=True)
        return Percentiles(*(_largest(column) for column in columns))

    return LatenciesOut(
        worst(each.publish for each in parts),
        worst(each.fetch for each in parts),
        worst(each.ack for each in parts),
    )


def _attention(parts: Iterable[Part]) -> list[Attention]:
    """The lines of all nodes; each once that several tell, and else with the node's number."""
    tellers: dict[Attention, list[int]] = {}
    for node_id, answer in parts:
        for line in answer.attention:
            tellers.setdefault(line, []).append(node_id)
    return most_urgent(
        line
        if len(nodes) > 1
        else Attention(line.severity, line.title, f"node {nodes[0]}: {line.detail}", line.link)
        for line, nodes in tellers.items()
    )


def _history(parts: Sequence[HistoryView]) -> HistoryView:
    return HistoryView(
        step_ms=parts[0].step_ms,
        at=parts[0].at,
        published_per_s=summed_values(each.published_per_s for each in parts),
        consumed_per_s=summed_values(each.consumed_per_s for each in parts),
        failed_per_s=summed_values(each.failed_per_s for each in parts),
        publish_p99_ms=largest_values(each.publish_p99_ms for each in parts),
        lag=summed_values(each.lag for each in parts),
    )


def _largest(values: Sequence[float | None]) -> float | None:
    return max((each for each in values if each is not None), default=None)
