"""States of coordinators that are made large, and then lose their leader (`_cluster_take_over`)."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Final

import mmh3

from benchmarks._brokers import HOST
from benchmarks._turns import expect
from goqueue import AsyncClient
from goqueue.client.link.link import GROUP_KEY
from goqueue.delays.entries import unit_of
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks._client import ClientProcess
    from benchmarks._clusters import ClusterProcesses

OFFSETS: Final = 100_000
PARTITIONS: Final = 100
IN_FLIGHT: Final = 1_000_000
SOON: Final = 1_000_000
FAR: Final = 5_000_000
SOON_MS: Final = 120_000
FAR_MS: Final = 30 * 86_400_000
_POLLED: Final = 1000
_HOURS: Final = "6h"
_HTTP_S: Final = 60.0
_MOVED_S: Final = 20.0
"""What a move takes: before the first of the messages is due."""


class CommittedOffsets:
    """A shard of groups, each with offsets of a hundred partitions."""

    median_s = 2.0
    longest_s = 4.0

    def __init__(self, cluster: ClusterProcesses, admin: ClientProcess, scale: float) -> None:
        groups = int(OFFSETS * scale) // PARTITIONS
        self.what = f"{groups * PARTITIONS} committed offsets"
        self._cluster = cluster
        self._admin = admin
        self._names: list[str] = []
        self._count = groups

    def prepare(self) -> None:
        """Commit, once."""
        if self._names:
            return
        topic = {"topics": ["committed"], "partitions": PARTITIONS}
        self._admin.call("make", address=self._cluster.address, **topic)
        self._cluster.settle()
        asyncio.run(self._commit())

    async def _commit(self) -> None:
        async with AsyncClient(self._cluster.address) as client:
            await _commit(client, "begin", 1)  # makes the topic that the shards are in
            shards = self._cluster.partition_count("__consumer_offsets")
            self._names = _names_of_shard("group", self._count, shards)
            for name in self._names:
                await _commit(client, name, PARTITIONS)

    def leader(self) -> int:
        """Who coordinates these groups."""
        return self._cluster.leader_of("__consumer_offsets", 0)

    @property
    def path(self) -> str:
        """The offsets of the group that committed last."""
        return f"/v1/groups/{self._names[-1]}/offsets"

    def is_right(self, answer: bytes) -> bool:
        """Whether they are all there."""
        found: dict[str, list[Any]] = json.loads(answer)["offsets"]
        return sum(map(len, found.values())) == PARTITIONS


async def _commit(client: AsyncClient, group: str, partitions: int) -> None:
    offsets = [
        {"partition_index": number, "committed_offset": 0, "committed_metadata": None}
        for number in range(partitions)
    ]
    give_up_s = time.monotonic() + _HTTP_S
    while True:
        answer = await client.link.ask_coordinator(
            GROUP_KEY,
            group,
            ApiKey.OFFSET_COMMIT,
            8,
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": "committed", "partitions": offsets}],
        )
        codes = {each.error_code for topic in answer.topics for each in topic.partitions}
        if codes == {0}:
            return
        expect(time.monotonic() < give_up_s, f"{group}: commits were answered by {codes}")
        client.link.forget_coordinator(GROUP_KEY, group)  # the first shards are being opened
        await asyncio.sleep(0.1)


class InFlight:
    """A queue whose messages are all delivered, and none is acknowledged."""

    median_s = 3.0
    longest_s = 6.0

    def __init__(self, cluster: ClusterProcesses, admin: ClientProcess, scale: float) -> None:
        self._count = int(IN_FLIGHT * scale)
        self.what = f"{self._count} messages in flight"
        self._cluster = cluster
        self._admin = admin
        self._group = ""

    def prepare(self) -> None:
        """Deliver them, once."""
        if self._group:
            return
        address, topic = self._cluster.address, "in-flight"
        self._admin.call("make", address=address, topics=[topic], partitions=1)
        self._cluster.settle()
        asyncio.run(_publish(address, topic, self._count))
        shards = self._cluster.partition_count("__consumer_offsets")
        (self._group,) = _names_of_shard("queue", 1, shards)
        joined = {
            "topics": [topic],
            "assignment": "shared",
            "start": "earliest",
            "visibility_timeout": _HOURS,
            "max_unacked": self._count,
        }
        member = self._ask("POST", f"/v1/groups/{self._group}/join", joined)["member_id"]
        poll = f"/v1/groups/{self._group}/poll?member_id={member}&limit={_POLLED}&timeout=5s"
        taken = 0
        while taken < self._count:
            messages = self._ask("GET", poll)["messages"]
            expect(messages, f"only {taken} messages are delivered")
            taken += len(messages)

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        connection = http.client.HTTPConnection(
            HOST, self._cluster.http_port_of(self.leader()), timeout=_HTTP_S
        )
        connection.request(method, path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        found = json.loads(answer.read())
        connection.close()
        expect(answer.status < 300, f"{method} {path}: {found}")
        return found

    def leader(self) -> int:
        """Who keeps the group."""
        return self._cluster.leader_of("__consumer_offsets", 0)

    @property
    def path(self) -> str:
        """The lanes of the group."""
        return f"/v1/priority/stats?group={self._group}"

    def is_right(self, answer: bytes) -> bool:
        """Whether as many are in flight."""
        lanes: dict[str, dict[str, int]] = json.loads(answer)["groups"][self._group]["lanes"]
        return sum(each["in_flight"] for each in lanes.values()) == self._count


async def _publish(address: str, topic: str, amount: int) -> None:
    async with AsyncClient(address) as client:
        for _ in range(amount // _POLLED):
            await client.publish_many(topic, [bytes(100)] * _POLLED)
        await client.flush()


class Waiting:
    """A unit of delayed messages: many that are due soon, and more that are far ahead."""

    median_s = 5.0
    longest_s = 10.0

    def __init__(
        self, cluster: ClusterProcesses, admin: ClientProcess, client: ClientProcess, scale: float
    ) -> None:
        self._soon, self._far = int(SOON * scale), int(FAR * scale)
        self.what = f"{self._soon} delayed messages due soon, {self._far} far ahead"
        self._cluster = cluster
        self._admin = admin
        self._client = client
        self._due_s = 0.0
        self._last = 0

    def prepare(self) -> None:
        """Publish those far ahead once, the others again when the last ones are about to be due."""
        if not self._last:
            settings = {"goqueue.delay.max.pending": "0"}
            made = {"topics": ["waiting"], "partitions": 1, "settings": settings}
            self._admin.call("make", address=self._cluster.address, **made)
            self._cluster.settle()
            self._publish(self._far, FAR_MS)
        if time.monotonic() < self._due_s - _MOVED_S:
            return
        began_s = time.monotonic()
        self._publish(self._soon, SOON_MS)
        self._due_s = began_s + SOON_MS / 1000

    def _publish(self, amount: int, delay_ms: int) -> None:
        leader = self._cluster.leader_of("waiting", 0)
        asked = {"topic": "waiting", "count": amount, "batch": 500, "delay_ms": delay_ms}
        done = self._client.call("stream", address=self._cluster.grpc_address_of(leader), **asked)
        expect(not done["failed"], f"{done}")
        expect(self._last == 0 or unit_of(self._last) == unit_of(done["last_id"]), "another unit")
        self._last = done["last_id"]

    def leader(self) -> int:
        """Who has the unit."""
        return self._cluster.leader_of("__delay_state", unit_of(self._last))

    @property
    def path(self) -> str:
        """The message that was published last."""
        return f"/v1/topics/waiting/delayed/{self._last}"

    def is_right(self, answer: bytes) -> bool:
        """Whether it waits."""
        return bool(json.loads(answer)["state"] == "pending")


def _names_of_shard(prefix: str, amount: int, shards: int) -> list[str]:
    """Names that belong to the first shard."""

    def found() -> Iterator[str]:
        for number in count():
            name = f"{prefix}-{number}"
            if mmh3.hash(name, signed=False) % shards == 0:
                yield name

    return list(islice(found(), amount))
