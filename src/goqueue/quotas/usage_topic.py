"""The internal topic `__usage`: what each node tells the others of usage and demand, and keeps.

Every node publishes under keys of its own: what the tenants have used by way of it, which is read
again at the next start, and, in a cluster, how much of each rate its clients use. Every node reads
what all have told. The topic is compacted: the newest of each key counts.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.errors import GoQueueError
from goqueue.model.internal_topics import USAGE
from goqueue.model.topic_partition import TopicPartition
from goqueue.quotas.shares import NO_DEMAND, Demand, shares
from goqueue.quotas.usage import Usage, total
from goqueue.records import Record, encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from goqueue.publishing.targets import Targets
    from goqueue.quotas.service import Quotas
    from goqueue.quotas.tenant_limits import TenantLimits
    from goqueue.reading.stored_messages import MessageReader
    from goqueue.runtime.clock import Clock

_log = logging.getLogger(__name__)

PASS_S: Final = 1.0
"""Between reports of demand."""
_USAGE_S: Final = 5.0
"""Between reports of usage: what a node that is killed may not have counted."""
_HEARD_S: Final = 5.0
"""A node of which nothing was heard for so long uses nothing."""
_MESSAGES_A_READ: Final = 1000
_PLACE: Final = TopicPartition(USAGE, 0)


class UsageTopic:
    """Publishes what this node knows, and reads what the others do."""

    def __init__(
        self,
        quotas: Quotas,
        limits: TenantLimits,
        node_id: int,
        *,
        targets: Targets,
        reader: MessageReader,
        create: Callable[[], Awaitable[None]],
        clock: Clock,
        others: Callable[[], Iterable[int]],
        size_of: Callable[[str], int],
    ) -> None:
        """`others` are the other nodes that run, `size_of` tells what a topic takes on disks."""
        self._quotas = quotas
        self._limits = limits
        self._node_id = node_id
        self._targets = targets
        self._reader = reader
        self._create = create
        self._clock = clock
        self._others = others
        self._size_of = size_of
        self._next_offset = 0
        self._is_loaded = False
        self._told: dict[str, bytes] = {}
        """The newest value of each key; as many as there are tenants times nodes."""
        self._usages: dict[tuple[str, int], Usage] = {}
        """By tenant and node, as they were told."""
        self._resets: dict[str, Usage] = {}
        """What is not counted any more, by tenant."""
        self._demands: dict[int, tuple[float, dict[str, Demand]]] = {}
        """By node: when it was heard of, and what its clients use."""
        self._usage_due_s = 0.0
        limits.groups_elsewhere = lambda tenant_id: self._elsewhere(tenant_id).groups

    # --- Looking ---------------------------------------------------------------------------------

    def usage(self, tenant_id: str) -> Usage:
        """What a tenant has used, on all nodes as far as they have told."""
        everything = self._elsewhere(tenant_id).plus(self._own(tenant_id))
        return everything.minus(self._resets.get(tenant_id, Usage()))

    def _elsewhere(self, tenant_id: str) -> Usage:
        """What other nodes have told."""
        return total(
            usage
            for (tenant, node), usage in self._usages.items()
            if tenant == tenant_id and node != self._node_id
        )

    def _own(self, tenant_id: str) -> Usage:
        meter = self._quotas.tenant_meters.get(tenant_id)
        usage = Usage() if meter is None else meter.usage()
        usage.groups = self._limits.group_count(tenant_id)
        return usage

    async def reset(self, tenant_id: str) -> None:
        """Count what a tenant uses from now on.

        Raises:
            GoQueueError: that could not be stored.
        """
        await self._create()  # the first pass may still be to come
        baseline = self.usage(tenant_id).plus(self._resets.get(tenant_id, Usage()))
        await self._publish({f"reset/{tenant_id}": msgspec.json.encode(baseline)})
        self._resets[tenant_id] = baseline

    # --- Telling ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """One pass: read what is new, tell what is new, and share out rates."""
        if not self._quotas.is_active:
            return
        try:
            await self._create()
            await self._read()
            now_s = self._clock.monotonic_s()
            news = self._demand(now_s)
            if now_s >= self._usage_due_s:
                self._usage_due_s = now_s + _USAGE_S
                self._weigh()
                news |= self._usage_news()
            await self._publish(news)
        except GoQueueError as error:
            _log.info("usage of tenants could not be told or read, retrying: %s", error)

    async def stop(self) -> None:
        """Tell what was used since the last pass."""
        if self._is_loaded:
            try:
                await self._publish(self._usage_news())
            except GoQueueError as error:
                _log.warning("usage of tenants since the last few seconds is lost: %s", error)

    def _weigh(self) -> None:
        """Note how much the topics of tenants take, and who is connected elsewhere."""
        for tenant_id, meter in self._quotas.tenant_meters.items():
            topics = self._limits.topics_of(tenant_id)
            meter.stored_bytes = sum(self._size_of(topic.name) for topic in topics)
            meter.connections_elsewhere = self._elsewhere(tenant_id).connections

    def _usage_news(self) -> dict[str, bytes | None]:
        known = self._quotas.tenant_meters
        news: dict[str, bytes | None] = {}
        for tenant_id in known:
            key = f"usage/{tenant_id}/{self._node_id}"
            value = msgspec.json.encode(self._own(tenant_id))
            if self._told.get(key) != value:
                news[key] = value
        for key in self._told:
            kind, _, rest = key.partition("/")
            if kind in {"usage", "reset"} and rest.partition("/")[0] not in known:
                news[key] = None
        return news

    def _demand(self, now_s: float) -> dict[str, bytes | None]:
        """What is told of demand; nothing on one node, and nothing while nobody does anything."""
        others = set(self._others())
        if not others:
            self._quotas.use_shares({}, 1)
            return {}
        own = self._quotas.demands(now_s)
        self._demands[self._node_id] = now_s, own
        self._share_out(now_s, others | {self._node_id})
        key = f"demand/{self._node_id}"
        value = msgspec.json.encode(own)
        if not own and self._told.get(key) == value:
            return {}
        return {key: value}

    def _share_out(self, now_s: float, nodes: set[int]) -> None:
        """Give this node its part of each rate that is in use."""
        heard = {
            node: self._demands[node][1]
            for node in nodes
            if node in self._demands and now_s - self._demands[node][0] < _HEARD_S
        }
        used = {key for demands in heard.values() for key in demands}
        mine = {}
        for key, rate in self._quotas.rates().items():
            if key in used:
                demands = {node: heard.get(node, {}).get(key, NO_DEMAND) for node in nodes}
                mine[key] = shares(rate, demands)[self._node_id] / rate
        self._quotas.use_shares(mine, len(nodes))

    async def _publish(self, news: dict[str, bytes | None]) -> None:
        if not news:
            return
        now_ms = self._clock.now_ms()
        records = [
            Record(at, now_ms, key.encode(), value) for at, (key, value) in enumerate(news.items())
        ]
        await self._targets.of(_PLACE).append(encode(records))

    # --- Reading ---------------------------------------------------------------------------------

    async def _read(self) -> None:
        while True:
            read = await self._reader.read(_PLACE, self._next_offset, limit=_MESSAGES_A_READ)
            for message in read.messages:
                self._take(message.record.key or b"", message.record.value)
            self._next_offset = max(self._next_offset, read.next_offset)
            if self._next_offset >= read.last_stable:
                break
        if not self._is_loaded:
            self._is_loaded = True
            self._restore()

    def _restore(self) -> None:
        """Go on counting where the last start of this node has ended."""
        for (tenant_id, node), usage in self._usages.items():
            meter = self._quotas.tenant_meters.get(tenant_id)
            if node == self._node_id and meter is not None:
                meter.earlier = msgspec.structs.replace(usage, connections=0, groups=0)

    def _take(self, key: bytes, value: bytes | None) -> None:
        name = key.decode("utf-8", "replace")
        kind, _, rest = name.partition("/")
        tenant_id, _, node = rest.rpartition("/") if kind == "usage" else (rest, "", rest)
        if value is None:
            self._told.pop(name, None)
            self._resets.pop(tenant_id, None)
            if kind == "usage":
                self._usages.pop((tenant_id, int(node)), None)
            return
        self._told[name] = value
        try:
            if kind == "usage":
                self._usages[tenant_id, int(node)] = msgspec.json.decode(value, type=Usage)
            elif kind == "reset":
                self._resets[tenant_id] = msgspec.json.decode(value, type=Usage)
            elif kind == "demand" and int(node) != self._node_id:
                demands = msgspec.json.decode(value, type=dict[str, Demand])
                self._demands[int(node)] = self._clock.monotonic_s(), demands
        except (msgspec.MsgspecError, ValueError) as error:
            _log.warning("%s: the entry %r is skipped: %s", USAGE, name, error)
