"""One connection of a follower to one leader, for the partitions of one lane.

A request names the replicas that have moved since the last one, which acknowledges what they have;
the answer is applied in the turn in which it arrives, and the next request leaves in the same turn.
While a request waits at the leader and a replica moves, another one is sent, which ends the wait.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.cluster.following import BACK_OFF_S, LONGEST_BACK_OFF_S
from goqueue.cluster.records import PartitionKey
from goqueue.model.errors import GoQueueError, PeerUnavailableError
from goqueue.partitions.replication.feed_session import ANSWER_BYTES
from goqueue.wire.kafka.fetch import FetchTopic, ForgottenTopic
from goqueue.wire.kafka.replica_fetch import ReplicaFetch

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from goqueue.cluster.hello import NodeIdentity
    from goqueue.cluster.peers import Lane, Peers, ReplicaLink
    from goqueue.partitions.replication.traffic import ReplicationTraffic
    from goqueue.wire.kafka.fetch import FetchedPartition, FetchPartition
    from goqueue.wire.kafka.replica_fetch import ReplicaFetched

logger = logging.getLogger(__name__)

WAIT_MS: Final = 500
"""How long a request waits at the leader when there is nothing to tell."""
_REQUESTS_AT_ONCE: Final = 2
"""One that waits, and one that ends its wait."""
PARTITIONS_A_REQUEST: Final = 250
"""More go with the next one, so that no request is large for a listener."""


class Fetching(Protocol):
    """One replica, as the connection by which it is fetched sees it."""

    key: PartitionKey

    def next_fetch(self) -> FetchPartition | None:
        """What to tell the leader of it; None when there is nothing to ask for now."""

    def answered(self, told: FetchedPartition) -> int:
        """Do what the leader said; returns how many bytes that was."""

    def lost(self) -> None:
        """The connection is lost, and the answer with it."""


class Fetcher:
    """Keeps a connection to a leader, and a session of fetches on it."""

    def __init__(
        self,
        leader: int,
        lane: Lane,
        peers: Peers,
        identity: NodeIdentity,
        *,
        bytes_per_s: int = 0,
        traffic: ReplicationTraffic,
    ) -> None:
        """Fetch from `leader`, at most `bytes_per_s`; 0 is as fast as it goes."""
        self.leader = leader
        self.lane = lane
        self._peers = peers
        self._identity = identity
        self.bytes_per_s = bytes_per_s
        self._traffic = traffic
        self._loop = asyncio.get_running_loop()
        self.followed: dict[PartitionKey, Fetching] = {}
        self._due: dict[Fetching, None] = {}
        """Those of which the leader is to be told something."""
        self._gone: dict[PartitionKey, None] = {}
        """Those that the session knows and that are fetched elsewhere, or not at all, by now."""
        self._asked_in: dict[Fetching, int] = {}
        """The request that last named a replica: an answer to an earlier one is not about it."""
        self._link: ReplicaLink | None = None
        self._number = 0
        """Of the last request, through all sessions."""
        self._session_epoch = 0
        self._in_flight = 0
        self._is_pump_due = False
        self._resume_at_s = 0.0
        self._broken: asyncio.Future[None] | None = None
        self._task = asyncio.create_task(self._run(), name=f"fetch from {leader} ({lane.value})")
        self.request_count = 0
        self.named_count = 0
        """Requests, and replicas named in them; tests count them."""

    # --- What is fetched -------------------------------------------------------------------------

    def add(self, fetching: Fetching) -> None:
        """Fetch a replica from now on."""
        self.followed[fetching.key] = fetching
        self._gone.pop(fetching.key, None)
        self.moved(fetching)

    def moved(self, fetching: Fetching) -> None:
        """A replica has something to tell the leader."""
        self._due[fetching] = None
        if not self._is_pump_due:
            self._is_pump_due = True
            self._loop.call_soon(self._pumped)

    def remove(self, key: PartitionKey) -> None:
        """Fetch it no more."""
        fetching = self.followed.pop(key, None)
        if fetching is None:
            return
        self._due.pop(fetching, None)
        if self._asked_in.pop(fetching, None) is not None:
            self._gone[key] = None
            if not self._is_pump_due:
                self._is_pump_due = True
                self._loop.call_soon(self._pumped)

    async def close(self) -> None:
        """Hang up."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    # --- The connection --------------------------------------------------------------------------

    async def _run(self) -> None:
        failures = 0
        while True:
            link = None
            try:
                link = await self._peers.open(self.leader, self.lane)
                began_s = self._loop.time()
                await self._serve(link)
            except GoQueueError as error:
                if link is not None and self._loop.time() - began_s > LONGEST_BACK_OFF_S:
                    failures = 0
                level = logging.DEBUG if isinstance(error, PeerUnavailableError) else logging.ERROR
                logger.log(level, "no fetching from node %d: %s", self.leader, error)
            except Exception:  # whatever it is, partitions without a follower would be worse
                logger.exception("fetching from node %d failed, retrying", self.leader)
            finally:
                self._lost(link)
            await asyncio.sleep(min(BACK_OFF_S * (1 << min(failures, 8)), LONGEST_BACK_OFF_S))
            failures += 1

    async def _serve(self, link: ReplicaLink) -> None:
        """Fetch until the connection is lost. Raises `GoQueueError`, saying why."""
        self._link = link
        self._session_epoch = self._in_flight = 0
        self._broken = self._loop.create_future()
        self._due.update(dict.fromkeys(self.followed.values()))
        self._pump()
        await self._broken

    def _lost(self, link: ReplicaLink | None) -> None:
        self._link = None
        if link is not None:
            link.close()
        self._gone.clear()
        self._asked_in.clear()
        for fetching in list(self.followed.values()):
            fetching.lost()

    def _break(self, error: GoQueueError) -> None:
        if self._broken is not None and not self._broken.done():
            self._broken.set_exception(error)

    # --- Requests and answers --------------------------------------------------------------------

    def _pumped(self) -> None:
        self._is_pump_due = False
        self._pump()

    def _pump(self) -> None:
        """Send what is to be told, and see to it that one request always waits at the leader.

        Whatever is raised ends the session: the next one names every replica anew.
        """
        try:
            self._send_due()
        except Exception as error:
            logger.exception("node %d was not asked", self.leader)
            self._break(PeerUnavailableError(f"a request to node {self.leader}: {error}"))

    def _send_due(self) -> None:
        while self._link is not None and self._in_flight < _REQUESTS_AT_ONCE:
            if self._in_flight and not self._due and not self._gone:
                return
            if (wait_s := self._resume_at_s - self._loop.time()) > 0:
                self._is_pump_due = True
                self._loop.call_later(wait_s, self._pumped)
                return
            wanted = self._next_wanted()
            if self._in_flight and not wanted and not self._gone:
                return
            self._send(self._link, wanted)

    def _next_wanted(self) -> list[FetchTopic]:
        if len(self._due) == 1:
            fetching = self._due.popitem()[0]
            asked = fetching.next_fetch()
            if asked is None:
                return []
            self.named_count += 1
            self._asked_in[fetching] = self._number + 1
            return [FetchTopic(None, fetching.key.topic_id, [asked])]
        by_topic: dict[UUID, list[FetchPartition]] = {}
        count = 0
        for fetching in list(self._due):
            if count >= PARTITIONS_A_REQUEST:
                break
            del self._due[fetching]
            asked = fetching.next_fetch()
            if asked is not None:
                count += 1
                self._asked_in[fetching] = self._number + 1
                by_topic.setdefault(fetching.key.topic_id, []).append(asked)
        self.named_count += count
        return [FetchTopic(None, topic_id, asked) for topic_id, asked in by_topic.items()]

    def _send(self, link: ReplicaLink, wanted: list[FetchTopic]) -> None:
        self._number += 1
        self._in_flight += 1
        self.request_count += 1
        self._traffic.requests.add()
        request = ReplicaFetch(
            self._identity.node_id,
            self._identity.incarnation,
            WAIT_MS,
            ANSWER_BYTES,
            self._session_epoch,
            wanted,
            _forgotten(self._gone) if self._gone else (),
        )
        self._gone.clear()
        self._session_epoch += 1
        link.fetch(request, partial(self._answered, link, self._number, self._loop.time()))

    def _answered(
        self,
        link: ReplicaLink,
        number: int,
        asked_s: float,
        answer: ReplicaFetched | GoQueueError,
    ) -> None:
        if link is not self._link:
            return  # of a session that is over
        self._in_flight -= 1
        if isinstance(answer, GoQueueError):
            self._break(answer)
            return
        if answer.error_code:
            self._break(
                PeerUnavailableError(
                    f"node {self.leader} refuses to be fetched from: error code {answer.error_code}"
                )
            )
            return
        self._traffic.latency.observe(self._loop.time() - asked_s)
        size_bytes, was_pump_due = 0, self._is_pump_due
        self._is_pump_due = True  # what moves meanwhile is told at the end of this step
        try:
            for topic in answer.topics:
                for told in topic.partitions:
                    size_bytes += self._apply(topic.topic_id, told, number)
        except Exception as error:
            logger.exception("an answer of node %d was not understood", self.leader)
            self._break(PeerUnavailableError(f"an answer of node {self.leader}: {error}"))
            return
        finally:
            self._is_pump_due = was_pump_due
        self._traffic.replicated.add(size_bytes)
        if self.bytes_per_s and size_bytes:
            self._resume_at_s = self._loop.time() + size_bytes / self.bytes_per_s
        self._pump()

    def _apply(self, topic_id: UUID | None, told: FetchedPartition, number: int) -> int:
        if topic_id is None:
            return 0
        key = PartitionKey(topic_id, told.partition)
        fetching = self.followed.get(key)
        if fetching is None or self._asked_in.get(fetching, number + 1) > number:
            return 0  # it has moved since: the leader answers that as well
        return fetching.answered(told)


def _forgotten(keys: Iterable[PartitionKey]) -> list[ForgottenTopic]:
    by_topic: dict[UUID, list[int]] = {}
    for topic_id, number in keys:
        by_topic.setdefault(topic_id, []).append(number)
    return [ForgottenTopic(None, topic_id, numbers) for topic_id, numbers in by_topic.items()]
