"""One member of a queue group, for as long as its stream is open.

Two tasks share the stream: one hands out messages as far as the client's window allows, the other
takes in what the client says became of them. The window counts what is sent and not settled, as the
broker does, so an acknowledgement is also the permission to send more.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import (
    AuthorizationFailedError,
    GoQueueError,
    GroupError,
    ReceiptError,
    TopicError,
)
from goqueue.model.tuples import NamedTuple
from goqueue.protocols.audit_trail import record_refused_receipts
from goqueue.protocols.grpc.conversions import RESPONSE_BYTES, places, record_bytes
from goqueue.protocols.grpc.deliveries import (
    Deliveries,
    to_columns,
    to_messages,
    too_large,
    unknown_delivery,
)
from goqueue.protocols.grpc.errors import InvalidRequestError, to_error
from goqueue.protocols.grpc.limits import MAX_ACKNOWLEDGED
from goqueue.protocols.grpc.rights import TOPIC_READ, caller
from goqueue.queues.acknowledging import Shower
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict
from goqueue.queues.delivery.receipts import Receipt
from goqueue.wire.grpc.limits import MAX_MESSAGE_BYTES
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    from goqueue.broker.broker import Broker
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.queues.members import QueueMember
    from goqueue.queues.runs import Run
    from goqueue.records import Record

VERDICTS: Final = {
    pb.VERDICT_ACK: Verdict.ACK,
    pb.VERDICT_NACK: Verdict.NACK,
    pb.VERDICT_RELEASE: Verdict.RELEASE,
    pb.VERDICT_REJECT: Verdict.REJECT,
    pb.VERDICT_EXTEND: Verdict.EXTEND,
    pb.VERDICT_RETURN: Verdict.RETURN,
}

WAIT_MS: Final = 1000
"""How long a member waits for messages before it looks what else is new."""
SILENCE_S: Final = 10.0
"""After which the client gets a heartbeat: it can tell an empty queue from a lost broker."""
READ_BYTES: Final = 1024 * 1024
_GATHER_S: Final = 0.005
"""How long a window that is nearly full may fill small batches no further."""


class Wishes(NamedTuple):
    """What the client wants of its stream."""

    limit: int
    window: int
    visibility_ms: int | None
    columns: bool


class QueueSubscription:
    """Delivers to a member, and settles for it."""

    def __init__(
        self,
        broker: Broker,
        member: QueueMember,
        write: Callable[[pb.SubscribeResponse], Awaitable[None]],
        wishes: Wishes,
        is_stopping: Callable[[], bool],
    ) -> None:
        """Serve `member`; a server that `is_stopping` takes nothing from it.

        A member that comes back after a restart goes on with what it had.
        """
        self._broker = broker
        self._queues = broker.queues
        self._queue_members = broker.queue_members
        self._member = member
        self._wishes = wishes
        self._is_stopping = is_stopping
        self._write = write
        self._writing = asyncio.Lock()
        self._written_s = 0.0
        self._deliveries = Deliveries()
        self._told: list[TopicPartition] | None = None
        self._news = asyncio.Event()
        """Something was settled: there is room for more."""

    async def run(self, requests: AsyncIterator[pb.SubscribeRequest]) -> None:
        """Serve until the client closes its side, or is gone; then hand what it has to others.

        Raises:
            GroupError: the group has removed the member; the client joins again.
        """
        term = self._queues.term(self._member.group_id)
        sender = asyncio.create_task(self._send_messages())
        listener = asyncio.create_task(self._listen(requests, sender))
        try:
            await asyncio.wait((sender, listener), return_when=asyncio.FIRST_COMPLETED)
            if sender.done() and not sender.cancelled():
                sender.result()
            await listener
        except GroupError as error:
            if not error.retriable:  # another node may keep the group and its members by now
                await self._queues.be_certain(term)
            raise
        finally:
            sender.cancel()
            listener.cancel()
            await asyncio.gather(sender, listener, return_exceptions=True)
            if not self._is_stopping():
                with suppress(GoQueueError):
                    await self._queue_members.leave(self._member)

    # --- To the client ---------------------------------------------------------------------------

    async def _send_messages(self) -> None:
        while True:
            await self._send_assignment()
            room = await self._room()
            if room:
                await self._send_runs(await self._poll(room))
            if asyncio.get_running_loop().time() - self._written_s > SILENCE_S:
                await self._send(pb.SubscribeResponse(heartbeat=pb.SubscribeHeartbeat()))

    async def _poll(self, room: int) -> list[tuple[Run, list[Record]]]:
        try:
            return await self._broker.deliverer.poll_runs(
                self._member,
                limit=min(room, self._wishes.limit),
                max_wait_ms=WAIT_MS,
                visibility_ms=self._wishes.visibility_ms,
                max_bytes=READ_BYTES,
            )
        except TopicError:  # one of them was just deleted; there may be others
            await asyncio.sleep(_GATHER_S)
            return []

    async def _send_assignment(self) -> None:
        """Tell the client what it takes from, if that is news."""
        partitions = self._queue_members.partitions_of(self._member)
        if partitions == self._told:
            return
        self._told = partitions
        group = self._queues.group(self._member.group_id)
        assignment = pb.Assignment(
            member_id=self._member.member_id,
            generation=self._member.epoch,
            partitions=places(partitions),
            visibility_timeout_ms=self._wishes.visibility_ms or group.settings.visibility_ms,
        )
        await self._send(pb.SubscribeResponse(assignment=assignment))

    async def _room(self) -> int:
        """How many messages the client can take; 0 when it has been full for a while.

        A window that opens message by message is waited for a little, so that one batch is sent
        in place of many.
        """
        room = self._free
        if room >= max(min(self._wishes.limit, self._wishes.window // 4), 1):
            return room
        await self._hear(_GATHER_S if room else WAIT_MS / 1000)
        if not self._free:
            await self._queue_members.heartbeat(self._member)
        return self._free

    @property
    def _free(self) -> int:
        group = self._queues.group(self._member.group_id)
        return max(self._wishes.window - group.unacked.get(self._member.member_id, 0), 0)

    async def _hear(self, timeout_s: float) -> None:
        """Until something is settled, or the time is over."""
        self._news.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._news.wait()

    async def _send_runs(self, runs: list[tuple[Run, list[Record]]]) -> None:
        sizes = [sum(map(record_bytes, records)) for _, records in runs]
        if sum(sizes) <= RESPONSE_BYTES:
            if runs:
                await self._send(self._response(runs))
            return
        for run, records in runs:
            for part in await self._carried(run, records):
                await self._send(self._response([part]))

    def _response(self, runs: list[tuple[Run, list[Record]]]) -> pb.SubscribeResponse:
        named = [(run, records, self._deliveries.add(run)) for run, records in runs]
        if self._wishes.columns:
            columns = pb.ColumnBatch(runs=[to_columns(*each) for each in named])
            return pb.SubscribeResponse(columns=columns)
        trace_id_of = self._broker.tracer.trace_id_of
        messages = (message for each in named for message in to_messages(*each, trace_id_of))
        return pb.SubscribeResponse(batch=pb.MessageBatch(messages=messages))

    async def _carried(self, run: Run, records: list[Record]) -> list[tuple[Run, list[Record]]]:
        """A run in parts that gRPC carries; a message that is too large is returned."""
        refused = too_large(records)
        if refused:
            reason = f"the message is larger than the {MAX_MESSAGE_BYTES} bytes that gRPC carries"
            acknowledgement = Acknowledgement(Verdict.NACK, reason)
            group_id = self._member.group_id
            await self._broker.acknowledger.settle_runs(group_id, [(run, refused)], acknowledgement)
        return list(_parts(run, records, set(refused)))

    async def _send(self, response: pb.SubscribeResponse) -> None:
        async with self._writing:
            await self._write(response)
        self._written_s = asyncio.get_running_loop().time()

    # --- From the client -------------------------------------------------------------------------

    async def _listen(
        self, requests: AsyncIterator[pb.SubscribeRequest], sender: asyncio.Task[None]
    ) -> None:
        async for request in requests:
            match request.WhichOneof("action"):
                case "settle":
                    result = await self._settle(request.settle)
                    self._news.set()
                    await self._send(pb.SubscribeResponse(settled=result))
                case "drain":
                    sender.cancel()
                    await asyncio.gather(sender, return_exceptions=True)
                case "join":
                    raise InvalidRequestError("a member joins once: open another stream")
                case action:
                    raise InvalidRequestError(f"{action}: a member of a queue group settles")

    async def _settle(self, settle: pb.SubscribeSettle) -> pb.SettleResult:
        """Take verdicts; what is wrong with one of them is told, and the stream goes on."""
        result = pb.SettleResult(correlation_id=settle.correlation_id)
        try:
            acknowledgement = judgement_of(settle.verdict, settle.reason, settle)
            check_count(len(settle.delivery_ids) + len(settle.receipt_handles))
            if settle.delivery_ids:
                await self._settle_ids(settle.delivery_ids, acknowledgement, result)
            if settle.receipt_handles:
                await self._settle_receipts(settle.receipt_handles, acknowledgement, result)
        except GoQueueError as error:
            result.error.CopyFrom(to_error(error))
        return result

    async def _settle_ids(
        self, ids: Sequence[int], acknowledgement: Acknowledgement, result: pb.SettleResult
    ) -> None:
        found, unknown = self._deliveries.find(ids)
        numbers = {id(self._deliveries.run(number)): number for number in found}
        named = [(self._deliveries.run(number), these) for number, these in found.items()]
        failed = await self._broker.acknowledger.settle_runs(
            self._member.group_id, named, acknowledgement
        )
        for each in unknown:
            result.failures.add(delivery_id=each, error=to_error(unknown_delivery(each)))
        for run, place, error in failed:
            number = numbers[id(run)]
            if error.retriable:  # the client may say it again, and names it as before
                found[number].remove(place)
            delivery_id = self._deliveries.delivery_id(number, place)
            result.failures.add(delivery_id=delivery_id, error=to_error(error))
        if acknowledgement.verdict is not Verdict.EXTEND:
            self._deliveries.settled(found)

    async def _settle_receipts(
        self, handles: Sequence[str], acknowledgement: Acknowledgement, result: pb.SettleResult
    ) -> None:
        group_id = self._member.group_id
        outcomes = await settle_handles(self._broker, handles, acknowledgement, group_id)
        record_refused_receipts(self._broker.access_trail, caller(), outcomes)
        for handle, error in outcomes:
            if error is not None:
                result.failures.add(receipt_handle=handle, error=to_error(error))


def judgement_of(
    verdict: pb.Verdict.ValueType,
    reason: str,
    request: pb.SubscribeSettle | pb.BatchAckRequest | pb.NackRequest,
) -> Acknowledgement:
    """What is said of messages."""
    if verdict not in VERDICTS:
        raise InvalidRequestError(f"verdict: {verdict} is none of {pb.Verdict.keys()}")
    delay_ms = request.delay_ms if request.HasField("delay_ms") else None
    return Acknowledgement(VERDICTS[verdict], reason, delay_ms)


def check_count(count: int) -> None:
    """Refuse a request that names nothing, or too much."""
    if not 1 <= count <= MAX_ACKNOWLEDGED:
        raise InvalidRequestError(f"{count} messages are named: expected 1 to {MAX_ACKNOWLEDGED}")


async def settle_handles(
    broker: Broker, handles: Sequence[str], acknowledgement: Acknowledgement, group_id: str | None
) -> list[tuple[str, GoQueueError | None]]:
    """Settle by receipts as they were written; for each, why it does not count, or None.

    Raises:
        GoQueueError: nothing is settled.
    """
    outcomes: list[GoQueueError | None] = [None] * len(handles)
    parsed: dict[int, Receipt] = {}
    for at, handle in enumerate(handles):
        try:
            receipt = Receipt.parse(handle)
            caller().require(TOPIC_READ, receipt.topic)
            parsed[at] = receipt
        except (ReceiptError, AuthorizationFailedError) as error:
            outcomes[at] = error
    receipts = list(parsed.values())
    may = caller()
    is_asked = group_id is not None or may.is_open
    shower = None if is_asked else Shower(may.principal, may.host)
    settled = await broker.acknowledger.settle(
        receipts, acknowledgement, group_id=group_id, shower=shower
    )
    for at, outcome in zip(parsed, settled, strict=True):
        outcomes[at] = outcome
    return list(zip(handles, outcomes, strict=True))


def _parts(
    run: Run, records: list[Record], refused: set[int]
) -> Iterator[tuple[Run, list[Record]]]:
    part: list[int] = []
    size_bytes = 0
    for place, record in enumerate(records):
        if place in refused:
            continue
        more_bytes = record_bytes(record)
        if part and size_bytes + more_bytes > RESPONSE_BYTES:
            yield run.part(part), [records[at] for at in part]
            part, size_bytes = [], 0
        part.append(place)
        size_bytes += more_bytes
    if part:
        yield run.part(part), [records[at] for at in part]
