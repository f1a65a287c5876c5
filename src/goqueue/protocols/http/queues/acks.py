"""Acknowledging messages that a queue group has delivered: ack, nack, reject, extend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import msgspec

from goqueue.model.errors import ReceiptError
from goqueue.model.limits import MAX_REASON_CHARS, MAX_VISIBILITY_MS
from goqueue.protocols.http.api.codecs import Duration, duration_ms
from goqueue.protocols.http.api.errors import FieldError
from goqueue.protocols.http.api.problems import kind_of
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.api.shapes import GroupName, Milliseconds, doc
from goqueue.protocols.http.limits import MAX_RECEIPTS
from goqueue.queues.acknowledgements import Acknowledgement, Verdict
from goqueue.queues.delivery.receipts import Receipt

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.model.errors import GoQueueError

_BODY_BYTES: Final = 4 * 1024 * 1024
_TAG: Final = "acknowledgement"
_OK: Final = 200
_RECEIPT: Final = "orders:0:42:1:00c0ffee00c0ffee"

ReceiptHandle: TypeAlias = Annotated[str, doc("As the poll gave it.", _RECEIPT)]
ReceiptHandles: TypeAlias = Annotated[
    list[ReceiptHandle],
    doc("As polls gave them.", [_RECEIPT], min_length=1, max_length=MAX_RECEIPTS),
]
Reason: TypeAlias = Annotated[
    str, doc("Why; kept with a message that dies.", "no such customer", max_length=MAX_REASON_CHARS)
]


# --- Requests ------------------------------------------------------------------------------------


class _Said(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What every acknowledgement may say."""

    group: Annotated[GroupName | None, doc("Receipts of other groups are refused.")] = None

    def judgement(self) -> Acknowledgement:
        """The acknowledgement. Raises `FieldError` when it makes no sense."""
        raise NotImplementedError


class _Ack(_Said, kw_only=True):
    def judgement(self) -> Acknowledgement:
        return Acknowledgement(Verdict.ACK)


class _Nack(_Said, kw_only=True):
    reason: Reason = ""
    delay: Annotated[
        Duration | None,
        doc("Before the next delivery, in place of the group's back-off.", "5s"),
    ] = None

    def judgement(self) -> Acknowledgement:
        delay_ms = None if self.delay is None else _milliseconds(self.delay, "delay")
        return Acknowledgement(Verdict.NACK, self.reason, delay_ms)


class _Reject(_Said, kw_only=True):
    reason: Annotated[Reason, msgspec.Meta(min_length=1)]

    def judgement(self) -> Acknowledgement:
        return Acknowledgement(Verdict.REJECT, self.reason)


class _Extend(_Said, kw_only=True):
    extension_seconds: Annotated[
        Annotated[float, msgspec.Meta(ge=0, le=MAX_VISIBILITY_MS / 1000)] | None,
        doc("How long from now on the message stays with its member.", 60),
    ] = None
    extension: Annotated[Duration | None, doc("The same as a duration.", "60s")] = None

    def judgement(self) -> Acknowledgement:
        if (self.extension is None) is (self.extension_seconds is None):
            raise FieldError(
                "say how long: extension_seconds, or extension",
                field="extension_seconds",
                expected="one of extension_seconds and extension",
            )
        if self.extension is not None:
            return Acknowledgement(Verdict.EXTEND, "", _milliseconds(self.extension, "extension"))
        assert self.extension_seconds is not None
        return Acknowledgement(Verdict.EXTEND, "", round(self.extension_seconds * 1000))


def _milliseconds(value: int | str, field: str) -> int:
    return duration_ms(value, field, at_most_ms=MAX_VISIBILITY_MS, location="body")


class AckBody(_Ack, kw_only=True):
    """A message that is processed."""

    receipt_handle: ReceiptHandle


class AckBatchBody(_Ack, kw_only=True):
    """Messages that are processed."""

    receipt_handles: ReceiptHandles


class NackBody(_Nack, kw_only=True):
    """A message that could not be processed now."""

    receipt_handle: ReceiptHandle


class NackBatchBody(_Nack, kw_only=True):
    """Messages that could not be processed now."""

    receipt_handles: ReceiptHandles


class RejectBody(_Reject, kw_only=True):
    """A message that can never be processed."""

    receipt_handle: ReceiptHandle


class RejectBatchBody(_Reject, kw_only=True):
    """Messages that can never be processed."""

    receipt_handles: ReceiptHandles


class VisibilityBody(_Extend, kw_only=True):
    """A message that takes longer."""

    receipt_handle: ReceiptHandle


class VisibilityBatchBody(_Extend, kw_only=True):
    """Messages that take longer."""

    receipt_handles: ReceiptHandles


# --- Answers -------------------------------------------------------------------------------------


class Settled(msgspec.Struct):
    """An acknowledgement that counts."""

    receipt_handle: str
    verdict: Annotated[str, doc("`ack`, `nack`, `reject` or `extend`.", "ack")]
    visible_until: Annotated[Milliseconds | None, doc("Of an `extend`: its new end.")] = None


class SettleResult(msgspec.Struct, omit_defaults=True):
    """What became of one receipt."""

    receipt_handle: str
    status: Annotated[int, doc("200, or what a request with this receipt alone would get.", 200)]
    code: Annotated[str | None, doc("Why it does not count, for programs.")] = None
    error: Annotated[str | None, doc("Why it does not count, for people.")] = None


class BatchSettled(msgspec.Struct):
    """One result for each receipt, in their order."""

    verdict: Annotated[str, doc("`ack`, `nack`, `reject` or `extend`.", "ack")]
    settled: Annotated[int, doc("How many count.", 1)]
    results: list[SettleResult]
    visible_until: Annotated[Milliseconds | None, doc("Of an `extend`: its new end.")] = None


class AckRoutes:
    """Acknowledgements of messages."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @route("POST", "/messages/ack", tag=_TAG)
    async def ack(self, body: AckBody) -> Settled:
        """Acknowledge a message: it is not delivered in this group again."""
        return await self._one(body, body.receipt_handle)

    @route("POST", "/messages/nack", tag=_TAG)
    async def nack(self, body: NackBody) -> Settled:
        """Return a message, to be redelivered after its back-off.

        The back-off grows with every delivery; after `max_deliveries` it is dead-lettered.
        """
        return await self._one(body, body.receipt_handle)

    @route("POST", "/messages/reject", tag=_TAG)
    async def reject(self, body: RejectBody) -> Settled:
        """Move a message to the dead-letter queue, for a reason."""
        return await self._one(body, body.receipt_handle)

    @route("POST", "/messages/visibility", tag=_TAG)
    async def extend(self, body: VisibilityBody) -> Settled:
        """Extend the visibility timeout of a message, counted from now; 0 returns it at once."""
        return await self._one(body, body.receipt_handle)

    @route("POST", "/messages/ack/batch", tag=_TAG, max_body_bytes=_BODY_BYTES)
    async def ack_batch(self, body: AckBatchBody) -> BatchSettled:
        """Acknowledge many messages. The answer is 200 also when some receipts do not count."""
        return await self._many(body, body.receipt_handles)

    @route("POST", "/messages/nack/batch", tag=_TAG, max_body_bytes=_BODY_BYTES)
    async def nack_batch(self, body: NackBatchBody) -> BatchSettled:
        """Return many messages. The answer is 200 also when some receipts do not count."""
        return await self._many(body, body.receipt_handles)

    @route("POST", "/messages/reject/batch", tag=_TAG, max_body_bytes=_BODY_BYTES)
    async def reject_batch(self, body: RejectBatchBody) -> BatchSettled:
        """Move many messages to the dead-letter queue.

        The answer is 200 also when some receipts do not count.
        """
        return await self._many(body, body.receipt_handles)

    @route("POST", "/messages/visibility/batch", tag=_TAG, max_body_bytes=_BODY_BYTES)
    async def extend_batch(self, body: VisibilityBatchBody) -> BatchSettled:
        """Extend many visibility timeouts; also 200 when some receipts do not count."""
        return await self._many(body, body.receipt_handles)

    async def _one(self, body: _Said, handle: str) -> Settled:
        judgement = body.judgement()
        receipt = Receipt.parse(handle)
        (error,) = await self._broker.acknowledger.settle([receipt], judgement, group_id=body.group)
        if error is not None:
            raise error
        return Settled(handle, judgement.verdict, self._visible_until(judgement))

    async def _many(self, body: _Said, handles: list[str]) -> BatchSettled:
        judgement = body.judgement()
        outcomes = [_parsed(handle) for handle in handles]
        receipts = [each for each in outcomes if isinstance(each, Receipt)]
        errors = iter(
            await self._broker.acknowledger.settle(receipts, judgement, group_id=body.group)
        )
        results = [
            _result(handle, next(errors) if isinstance(each, Receipt) else each)
            for handle, each in zip(handles, outcomes, strict=True)
        ]
        return BatchSettled(
            judgement.verdict,
            sum(each.status == _OK for each in results),
            results,
            self._visible_until(judgement),
        )

    def _visible_until(self, judgement: Acknowledgement) -> int | None:
        if judgement.verdict is not Verdict.EXTEND or judgement.delay_ms is None:
            return None
        return self._broker.clock.now_ms() + judgement.delay_ms


def _parsed(handle: str) -> Receipt | ReceiptError:
    try:
        return Receipt.parse(handle)
    except ReceiptError as error:
        return error


def _result(handle: str, error: GoQueueError | None) -> SettleResult:
    if error is None:
        return SettleResult(handle, _OK)
    status, code, _ = kind_of(error)
    return SettleResult(handle, status, code, str(error))
