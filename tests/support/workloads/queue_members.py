"""Members of queue groups, a class for each API. Most messages are acknowledged, others are not.

Each message is acknowledged, nacked, rejected, held for a while and acknowledged then, or dropped:
nothing is said of it, and it is redelivered when its visibility timeout has passed.
"""

from __future__ import annotations

import asyncio
import queue
import random
import time
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple
from urllib.parse import urlencode

import grpc
from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, ShareConsumer

from goqueue import AsyncClient
from goqueue.client.errors import BrokerUnavailableError
from goqueue.model.errors import GoQueueError
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb, goqueue_pb2_grpc as services
from support.cluster_queue import call
from support.oracles.queues import ACK, REJECT, QueueHistory, Refused
from support.workloads.base import PROGRESS_S, Client

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.client.queues.messages import AsyncQueueMessage
    from support.cluster_nodes import ClusterNodes

NACK, HOLD, DROP = "nack", "hold", "drop"
VISIBILITY_S: Final = 20.0
SESSION_S: Final = 60.0
MAX_DELIVERIES: Final = 100
SETTLE_S: Final = 2 * VISIBILITY_S
"""For so long a client tries to say what became of a message."""
_MOVING: Final = (0, 408, 429, 500, 502, 503, 504)
_BAD: Final = 25
"""One of so many messages is rejected."""


def is_bad(value: str) -> bool:
    """Whether a message never succeeds."""
    return int(value.rpartition("-")[2]) % _BAD == 7


class Delivery(NamedTuple):
    """A message that a member was handed."""

    value: str
    number: int
    """How often it was delivered, this time included."""
    receipt: str
    asked_s: float
    """When it was asked for: its visibility timeout began later."""
    delivery_id: int = 0

    @property
    def is_in_time(self) -> bool:
        """Whether its receipt has to count."""
        return time.monotonic() < self.asked_s + VISIBILITY_S - 2


class Member(Client):
    """A member of a group of its own API."""

    api: str
    verdicts: ClassVar[dict[str, float]] = {ACK: 0.74, NACK: 0.12, HOLD: 0.1, DROP: 0.04}

    def __init__(self, cluster: ClusterNodes, history: QueueHistory, seed: int) -> None:
        super().__init__(f"queue-{self.api}-{seed}")
        self.cluster = cluster
        self.history = history
        self.luck = random.Random(seed)
        self.topic, self.group = f"queue-{self.api}", f"workers-{self.api}"
        self.held: list[tuple[float, Delivery]] = []

    @property
    def node(self) -> int:
        return self.luck.choice((1, 2, 3))

    def decide(self, found: Delivery) -> str:
        """Note a delivery; what becomes of it."""
        self.history.delivered(found.value, found.number)
        if is_bad(found.value):
            return REJECT
        (verdict,) = self.luck.choices([*self.verdicts], [*self.verdicts.values()])
        if verdict == HOLD:
            self.held.append((time.monotonic() + self.luck.uniform(1, VISIBILITY_S - 6), found))
        return verdict

    def decide_all(self, found: Iterable[Delivery]) -> dict[str, list[Delivery]]:
        """What is to be said now, by verdict."""
        said: dict[str, list[Delivery]] = {ACK: self.ripe(), NACK: [], REJECT: []}
        for each in found:
            verdict = self.decide(each)
            if verdict in said:
                said[verdict].append(each)
        return {verdict: some for verdict, some in said.items() if some}

    def ripe(self) -> list[Delivery]:
        """What was held for long enough."""
        now_s = time.monotonic()
        ripe = [each for until_s, each in self.held if until_s <= now_s]
        self.held = [(until_s, each) for until_s, each in self.held if until_s > now_s]
        return ripe

    def was_refused(
        self, found: Delivery, verdict: str, why: str, *, was_tried: bool, is_in_time: bool
    ) -> None:
        """A receipt does not count."""
        self.history.refused(found.value, why)
        if was_tried:
            self.history.in_doubt(found.value, verdict)
        if is_in_time and not (was_tried and verdict == NACK):  # which may have counted, too
            self.history.refused_in_time(Refused(found.value, found.number, why, was_tried))


# --- HTTP ----------------------------------------------------------------------------------------


class HttpMember(Member):
    api = "http"

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """One request to any node; 0 when it does not answer."""
        try:
            return call(self.cluster.http_url(self.node), method, path, body, timeout_s=5.0)
        except (OSError, HTTPException):
            return 0, None

    def work(self, name: str) -> None:
        member = self._join()
        while not self.stopping.is_set():
            asked_s = time.monotonic()
            query = urlencode({"member_id": member, "limit": 20, "timeout": "300ms"})
            status, answer = self.ask("GET", f"/groups/{self.group}/poll?{query}")
            if status not in {200, *_MOVING}:
                raise RuntimeError(f"poll: {status} {answer}")
            found = answer["messages"] if status == 200 else []
            deliveries = [
                Delivery(each["value"], each["delivery_count"], each["receipt_handle"], asked_s)
                for each in found
            ]
            for verdict, some in self.decide_all(deliveries).items():
                self._settle(verdict, some)

    def _join(self) -> str:
        settings = {
            "topics": [self.topic],
            "assignment": "shared",
            "visibility_timeout": f"{VISIBILITY_S:.0f}s",
            "session_timeout": f"{SESSION_S:.0f}s",
            "backoff": "50ms",
            "max_deliveries": MAX_DELIVERIES,
        }
        deadline = time.monotonic() + PROGRESS_S
        while True:
            status, answer = self.ask("POST", f"/groups/{self.group}/join", settings)
            if status in (200, 201):
                return str(answer["member_id"])
            if time.monotonic() > deadline or status not in _MOVING:
                raise RuntimeError(f"join: {status} {answer}")
            self.stopping.wait(0.2)

    def _settle(self, verdict: str, some: list[Delivery]) -> None:
        """Say it until every receipt has an answer."""
        left = {each.receipt: each for each in some}
        deadline = time.monotonic() + SETTLE_S
        was_tried = False
        while left and time.monotonic() < deadline:
            body: dict[str, Any] = {"receipt_handles": list(left)}
            if verdict == REJECT:
                body["reason"] = "bad"
            status, answer = self.ask("POST", f"/messages/{verdict}/batch", body)
            results = answer["results"] if status == 200 else []
            for each in results:
                found = left[each["receipt_handle"]]
                if each["status"] in _MOVING:
                    continue
                del left[found.receipt]
                if each["status"] == 200:
                    self.history.settled(found.value, found.number, verdict)
                else:
                    self.was_refused(
                        found,
                        verdict,
                        str(each),
                        was_tried=was_tried,
                        is_in_time=found.is_in_time,
                    )
            was_tried = True
            if left:
                time.sleep(0.1)
        for each in left.values():
            self.history.in_doubt(each.value, verdict)


# --- gRPC ----------------------------------------------------------------------------------------

_VERDICTS: Final = {ACK: pb.VERDICT_ACK, NACK: pb.VERDICT_NACK, REJECT: pb.VERDICT_REJECT}


class GrpcMember(Member):
    """A stream to any node; what was said on one that broke is said again by receipts."""

    api = "grpc"

    def work(self, name: str) -> None:
        with grpc.insecure_channel(self.cluster.grpc_address(self.node)) as channel:
            sending: queue.Queue[Any] = queue.Queue()
            join = pb.SubscribeJoin(
                group=self.group,
                topics=[self.topic],
                assignment=pb.ASSIGNMENT_SHARED,
                visibility_timeout_ms=int(VISIBILITY_S * 1000),
                max_deliveries=MAX_DELIVERIES,
            )
            sending.put(pb.SubscribeRequest(join=join))
            stub = services.ConsumeServiceStub(channel)
            stream = stub.Subscribe(iter(sending.get, None), timeout=40)
            said: dict[int, tuple[str, list[Delivery]]] = {}
            try:
                self._listen(stream, sending, said)
            finally:
                sending.put(None)
                stream.cancel()
                said[0] = ACK, [each for _, each in self.held]
                self.held = []
                for verdict, some in said.values():
                    self._settle_elsewhere(verdict, some)

    def _listen(
        self, stream: Any, sending: queue.Queue[Any], said: dict[int, tuple[str, list[Delivery]]]
    ) -> None:
        number, since_s = 0, time.monotonic()
        for event in stream:
            if event.WhichOneof("event") == "settled":
                self._settled(event.settled, said)
            found = [
                Delivery(
                    each.value.decode(),
                    each.delivery_count,
                    each.receipt_handle,
                    since_s,
                    each.delivery_id,
                )
                for each in event.batch.messages
            ]
            since_s = time.monotonic()
            for verdict, some in self.decide_all(found).items():
                number += 1
                said[number] = verdict, some
                settle = pb.SubscribeSettle(
                    correlation_id=number,
                    verdict=_VERDICTS[verdict],
                    delivery_ids=[each.delivery_id for each in some],
                    reason="bad",
                )
                if verdict == NACK:
                    settle.delay_ms = 50
                sending.put(pb.SubscribeRequest(settle=settle))
            if self.stopping.is_set() and not said:
                return

    def _settled(self, result: Any, said: dict[int, tuple[str, list[Delivery]]]) -> None:
        verdict, some = said.pop(result.correlation_id)
        if result.HasField("error"):
            if result.error.retriable:
                self._settle_elsewhere(verdict, some)
            else:
                for each in some:
                    self._refused(each, verdict, result.error, was_tried=False)
            return
        failures = {each.delivery_id: each.error for each in result.failures}
        for each in some:
            if (error := failures.get(each.delivery_id)) is None:
                self.history.settled(each.value, each.number, verdict)
            elif error.retriable:
                self._settle_elsewhere(verdict, [each])
            else:
                self._refused(each, verdict, error, was_tried=False, is_live=True)

    def _refused(
        self, found: Delivery, verdict: str, error: Any, *, was_tried: bool, is_live: bool = False
    ) -> None:
        """On a stream that is open receipts count; with it, what it had goes to others."""
        in_time = is_live and found.is_in_time
        self.was_refused(found, verdict, error.message, was_tried=was_tried, is_in_time=in_time)

    def _settle_elsewhere(self, verdict: str, some: list[Delivery]) -> None:
        left = {each.receipt: each for each in some}
        deadline = time.monotonic() + SETTLE_S
        while left and time.monotonic() < deadline:
            request = pb.BatchAckRequest(
                receipt_handles=list(left), verdict=_VERDICTS[verdict], reason="bad"
            )
            with grpc.insecure_channel(self.cluster.grpc_address(self.node)) as channel:
                try:
                    answer = services.AckServiceStub(channel).BatchAck(request, timeout=5)
                except grpc.RpcError:
                    time.sleep(0.1)
                    continue
            for outcome in answer.outcomes:
                if outcome.HasField("error") and outcome.error.retriable:
                    continue
                found = left.pop(outcome.receipt_handle)
                if outcome.HasField("error"):
                    self._refused(found, verdict, outcome.error, was_tried=True)
                else:
                    self.history.settled(found.value, found.number, verdict)
        for each in left.values():
            self.history.in_doubt(each.value, verdict)


# --- Our own client ------------------------------------------------------------------------------


class ClientMember(Member):
    """`AsyncClient.queue`."""

    api = "client"

    def work(self, name: str) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        async with (
            AsyncClient(self.cluster.bootstrap) as client,
            client.queue(
                self.group,
                [self.topic],
                visibility=VISIBILITY_S,
                prefetch=100,
                max_deliveries=MAX_DELIVERIES,
            ) as queue,
            asyncio.TaskGroup() as tasks,
        ):
            ending = asyncio.create_task(self._end(asyncio.current_task()))
            try:
                async for message in queue:
                    tasks.create_task(self._settle(message))
            except asyncio.CancelledError:
                pass
            finally:
                ending.cancel()

    async def _end(self, working: asyncio.Task[None] | None) -> None:
        while not self.stopping.is_set():  # noqa: ASYNC110 - of another thread
            await asyncio.sleep(0.1)
        assert working is not None
        working.cancel()

    async def _settle(self, message: AsyncQueueMessage) -> None:
        asked_s = time.monotonic()
        found = Delivery((message.value or b"").decode(), message.delivery_count, "", asked_s - 1)
        verdict = self.decide(found)
        if verdict == HOLD:
            until_s, _ = self.held.pop()
            await asyncio.sleep(until_s - asked_s)
            verdict = ACK
        elif verdict == DROP:
            return
        try:
            if verdict == ACK:
                await message.ack()
            elif verdict == NACK:
                await message.nack(delay=0.05)
            else:
                await message.reject("bad")
        except BrokerUnavailableError:
            self.history.in_doubt(found.value, verdict)
        except asyncio.CancelledError:
            self.history.in_doubt(found.value, verdict)
            raise
        except GoQueueError as error:  # it tries again by itself: the first may have counted
            why = f"{type(error).__name__}: {error}"
            self.was_refused(found, verdict, why, was_tried=True, is_in_time=False)
        else:
            self.history.settled(found.value, found.number, verdict)


# --- confluent-kafka's share consumer ------------------------------------------------------------

_LOST: Final = KafkaException(KafkaError(KafkaError._TRANSPORT))
_IN_DOUBT: Final = (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT)
"""The request was sent, and no answer came; or the broker does not know whether it is stored."""
_TYPES: Final = {
    ACK: AcknowledgeType.ACCEPT,
    NACK: AcknowledgeType.RELEASE,
    REJECT: AcknowledgeType.REJECT,
}


class ShareMember(Member):
    """It must say something of every message before it gets more: nothing is held or dropped."""

    api = "share"
    verdicts: ClassVar[dict[str, float]] = {ACK: 0.88, NACK: 0.12}

    def work(self, name: str) -> None:
        consumer = ShareConsumer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "group.id": self.group,
                "share.acknowledgement.mode": "explicit",
                "socket.timeout.ms": 3000,
                "log_level": 0,
            }
        )
        consumer.subscribe([self.topic])
        try:
            while not self.stopping.is_set():
                self._take(consumer)
        finally:
            consumer.close()

    def _take(self, consumer: ShareConsumer) -> None:
        said = []
        for each in consumer.poll(0.5):
            if each.error():
                continue
            count = each.delivery_count() or 0
            found = Delivery(each.value().decode(), count, "", time.monotonic())
            verdict = self.decide(found)
            consumer.acknowledge(each, _TYPES[verdict])
            said.append((each, found, verdict))
        if not said:
            return
        try:
            results = consumer.commit_sync(20)
        except KafkaException:
            results = {}
        errors = {(at.topic, at.partition): error for at, error in results.items()}
        for message, found, verdict in said:
            error = errors.get((message.topic(), message.partition()), _LOST)
            if error is None:
                self.history.settled(found.value, found.number, verdict)
            elif error.args[0].code() in _IN_DOUBT:
                self.history.in_doubt(found.value, verdict)
            else:
                self.history.refused(found.value, str(error))
