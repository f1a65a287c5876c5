"""Batches of transactions that end in one decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import msgspec

from goqueue.model.limits import MAX_SERIES_TRANSACTIONS
from goqueue.protocols.http.api.places import transaction
from goqueue.protocols.http.api.rights import (
    ID_WRITE,
    WRITE,
    all_of,
    on_transactional_id,
    within,
)
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.api.shapes import doc
from goqueue.protocols.http.transactions.transaction_shapes import (
    Epoch,
    ProducerId,
    TransactionalId,
)
from goqueue.protocols.permissions import Permissions
from goqueue.transactions.messages import Identity
from goqueue.transactions.series import Member, TogetherRequest

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker

_TAG: Final = "transactions"
_BODY_BYTES: Final = 4 * 1024 * 1024
_WEEK_MS: Final = 7 * 24 * 3600 * 1000

SeriesName: TypeAlias = Annotated[
    str,
    doc(
        "Names a job that writes in numbered batches. Its transactional ids start with it and "
        "`::`.",
        "nightly-import",
        min_length=1,
        max_length=200,
    ),
]
BatchNumber: TypeAlias = Annotated[
    int, doc("Of the batch; each is higher than the one before.", 7, ge=0, le=2**63 - 1)
]


class AtomicCommitMember(msgspec.Struct, forbid_unknown_fields=True):
    """One transaction of the batch."""

    transactional_id: TransactionalId
    producer_id: ProducerId
    epoch: Epoch


class AtomicCommitBody(msgspec.Struct, forbid_unknown_fields=True):
    """The transactions of the batch."""

    series: SeriesName
    number: BatchNumber
    members: Annotated[
        list[AtomicCommitMember],
        doc(
            "All of them count, at once; none is a batch without messages.",
            max_length=MAX_SERIES_TRANSACTIONS,
        ),
    ]
    keep_ms: Annotated[
        int,
        doc("How long the number is remembered if no batch follows.", _WEEK_MS, ge=1, le=2**53),
    ] = _WEEK_MS


class AtomicCommitAnswer(msgspec.Struct):
    """The result of the batch."""

    series: SeriesName
    number: BatchNumber
    is_new: Annotated[
        bool, doc("False: it was committed before, and what was sent again is aborted.")
    ]


class AtomicAbortBody(msgspec.Struct, forbid_unknown_fields=True):
    """The batch to abort."""

    series: SeriesName
    number: BatchNumber


class AtomicCommitRoutes:
    """Ends transactions by the batch."""

    def __init__(self, broker: Broker) -> None:
        self._transactions = broker.transactions

    @route(
        "POST",
        "/transactions/commit-together",
        right=all_of(
            on_transactional_id(WRITE, "body.series"), within(ID_WRITE, note="each member")
        ),
        tag=_TAG,
        max_body_bytes=_BODY_BYTES,
        place=transaction("body.series"),
    )
    async def commit_together(self, body: AtomicCommitBody, may: Permissions) -> AtomicCommitAnswer:
        """Commit the transactions of a batch in one decision, once.

        A repeated request, or one for an earlier batch, commits nothing more. Other open
        transactions of the series are aborted.
        """
        for each in body.members:
            may.require(ID_WRITE, each.transactional_id)
        members = tuple(
            Member(each.transactional_id, Identity(each.producer_id, each.epoch))
            for each in body.members
        )
        is_new = await self._transactions.commit_together(
            TogetherRequest(
                series=body.series, number=body.number, members=members, keep_ms=body.keep_ms
            )
        )
        return AtomicCommitAnswer(body.series, body.number, is_new)

    @route(
        "POST",
        "/transactions/abort-together",
        right=on_transactional_id(WRITE, "body.series"),
        tag=_TAG,
        place=transaction("body.series"),
    )
    async def abort_together(self, body: AtomicAbortBody) -> AtomicCommitAnswer:
        """Abort the open transactions of the series; no effect if the batch was committed."""
        await self._transactions.abort_together(
            TogetherRequest(series=body.series, number=body.number, keep_ms=_WEEK_MS)
        )
        return AtomicCommitAnswer(body.series, body.number, is_new=False)
