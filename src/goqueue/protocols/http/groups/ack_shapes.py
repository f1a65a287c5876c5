"""What members say over HTTP of messages that were delivered, and what they are answered."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from goqueue.model.limits import MAX_REASON_CHARS, MAX_VISIBILITY_MS
from goqueue.protocols.http.api.codecs import Duration, duration_ms
from goqueue.protocols.http.api.errors import FieldError
from goqueue.protocols.http.api.shapes import GroupName, Milliseconds, doc
from goqueue.protocols.http.limits import MAX_RECEIPTS
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict

_RECEIPT: Final = "orders:0:42:1:00c0ffee00c0ffee"

ReceiptHandle: TypeAlias = Annotated[str, doc("From the poll.", _RECEIPT)]
ReceiptHandles: TypeAlias = Annotated[
    list[ReceiptHandle],
    doc("From polls.", [_RECEIPT], min_length=1, max_length=MAX_RECEIPTS),
]
Reason: TypeAlias = Annotated[
    str,
    doc(
        "The reason; stored in the headers of a dead-lettered message.",
        "no such customer",
        max_length=MAX_REASON_CHARS,
    ),
]


# --- Requests ------------------------------------------------------------------------------------


class Acknowledging(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Fields that every acknowledgement has."""

    group: Annotated[GroupName | None, doc("Receipts of other groups are refused.")] = None

    def acknowledgement(self) -> Acknowledgement:
        """The acknowledgement. Raises `FieldError` when it makes no sense."""
        raise NotImplementedError


class _Ack(Acknowledging, kw_only=True):
    def acknowledgement(self) -> Acknowledgement:
        return Acknowledgement(Verdict.ACK)


class _Nack(Acknowledging, kw_only=True):
    reason: Reason = ""
    delay: Annotated[
        Duration | None,
        doc("Delay before redelivery, instead of the group's back-off.", "5s"),
    ] = None

    def acknowledgement(self) -> Acknowledgement:
        delay_ms = None if self.delay is None else _milliseconds(self.delay, "delay")
        return Acknowledgement(Verdict.NACK, self.reason, delay_ms)


class _Reject(Acknowledging, kw_only=True):
    reason: Annotated[Reason, msgspec.Meta(min_length=1)]

    def acknowledgement(self) -> Acknowledgement:
        return Acknowledgement(Verdict.REJECT, self.reason)


class _Extend(Acknowledging, kw_only=True):
    extension_seconds: Annotated[
        Annotated[float, msgspec.Meta(ge=0, le=MAX_VISIBILITY_MS / 1000)] | None,
        doc("The new visibility timeout, counted from now.", 60),
    ] = None
    extension: Annotated[Duration | None, doc("The same, as a duration.", "60s")] = None

    def acknowledgement(self) -> Acknowledgement:
        if (self.extension is None) is (self.extension_seconds is None):
            raise FieldError(
                "no extension given: expected extension_seconds or extension",
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
    """One message to acknowledge."""

    receipt_handle: ReceiptHandle


class AckBatchBody(_Ack, kw_only=True):
    """Messages to acknowledge."""

    receipt_handles: ReceiptHandles


class NackBody(_Nack, kw_only=True):
    """One message to return for redelivery."""

    receipt_handle: ReceiptHandle


class NackBatchBody(_Nack, kw_only=True):
    """Messages to return for redelivery."""

    receipt_handles: ReceiptHandles


class RejectBody(_Reject, kw_only=True):
    """One message to dead-letter."""

    receipt_handle: ReceiptHandle


class RejectBatchBody(_Reject, kw_only=True):
    """Messages to dead-letter."""

    receipt_handles: ReceiptHandles


class VisibilityBody(_Extend, kw_only=True):
    """One message whose visibility timeout is extended."""

    receipt_handle: ReceiptHandle


class VisibilityBatchBody(_Extend, kw_only=True):
    """Messages whose visibility timeouts are extended."""

    receipt_handles: ReceiptHandles


# --- Answers -------------------------------------------------------------------------------------


class Settled(msgspec.Struct):
    """An accepted acknowledgement."""

    receipt_handle: str
    verdict: Annotated[str, doc("`ack`, `nack`, `reject` or `extend`.", "ack")]
    visible_until: Annotated[
        Milliseconds | None, doc("After an `extend`: the new end of the visibility timeout.")
    ] = None


class SettleResult(msgspec.Struct, omit_defaults=True):
    """The result of one receipt."""

    receipt_handle: str
    status: Annotated[
        int, doc("200, or the status that a request with this receipt alone would have.", 200)
    ]
    code: Annotated[str | None, doc("The error code, if it was refused.")] = None
    error: Annotated[str | None, doc("The error message, if it was refused.")] = None
    error_name: Annotated[
        str | None,
        doc(
            "The class of the error in the Python client, if it was refused.", "UnknownReceiptError"
        ),
    ] = None


class BatchSettled(msgspec.Struct):
    """One result per receipt, in the order of the request."""

    verdict: Annotated[str, doc("`ack`, `nack`, `reject` or `extend`.", "ack")]
    settled: Annotated[int, doc("Accepted receipts.", 1)]
    results: list[SettleResult]
    visible_until: Annotated[
        Milliseconds | None, doc("After an `extend`: the new end of the visibility timeout.")
    ] = None
