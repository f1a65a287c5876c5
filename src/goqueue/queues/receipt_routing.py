"""Acknowledgements in a cluster: each receipt goes to the node that keeps its group.

A receipt names the shard of its group, so that is one question to one node, whichever was asked by
the client. One that names none is from before there was a cluster: with the name of its group it
goes to that, without it to every node. When the node is lost meanwhile and another one keeps the
group already, that one is asked, once.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from goqueue.model.error_names import named_error
from goqueue.model.errors import (
    CoordinatorLoadingError,
    CoordinatorUnavailableError,
    ExpiredReceiptError,
    ForeignReceiptError,
    GoQueueError,
    InvariantError,
    PeerUnavailableError,
    ReceiptError,
    UnknownPartitionError,
    UnknownReceiptError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.queues.acknowledging import Acknowledger, AckServices, Shower, check
from goqueue.queues.shards import QUEUE_TOPIC
from goqueue.state.certainty import Term
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.queues.delivery.decisions import Acknowledgement
    from goqueue.queues.delivery.receipts import Receipt
    from goqueue.queues.service import Queues
    from goqueue.topics.forwarding import Forwards
    from goqueue.wire.kafka.reading import Struct

    Outcomes: TypeAlias = list[GoQueueError | None]

NO_DELAY: Final = -1
"""In place of a delay that was not given."""
_ANSWER_S: Final = 10.0
"""How long another node has for its answer; after that the client is told to try again."""
_RECEIPT_BYTES: Final = 256
"""What a receipt on its way to another node holds besides its text."""


class RoutedAcknowledger(Acknowledger):
    """Takes verdicts on messages of groups that any node keeps."""

    def __init__(self, services: AckServices, queues: Queues, forwards: Forwards) -> None:
        super().__init__(services, queues)
        self._forwards = forwards
        self._routes = forwards.routes

    async def settle(
        self,
        receipts: Sequence[Receipt],
        acknowledgement: Acknowledgement,
        *,
        group_id: str | None = None,
        shower: Shower | None = None,
    ) -> Outcomes:
        """Take one verdict on many messages; for each, None, or why it does not count.

        Where a node cannot be asked that is told for the receipts that it would have to be shown,
        and may be tried again: nobody knows whether they count already.
        """
        check(acknowledgement)
        outcomes, asked = await self._settle(receipts, acknowledgement, group_id, shower)
        moved = [
            at
            for at, node_id in asked.items()
            if isinstance(outcomes[at], PeerUnavailableError)
            and self._keeper(receipts[at], group_id) not in {None, node_id}
        ]
        if moved:
            again = [receipts[at] for at in moved]
            found, _ = await self._settle(again, acknowledgement, group_id, shower)
            for at, outcome in zip(moved, found, strict=True):
                # One that does not count any more may have counted where the answer was lost.
                if not isinstance(outcome, ReceiptError):
                    outcomes[at] = outcome
        return outcomes

    async def _settle(
        self,
        receipts: Sequence[Receipt],
        acknowledgement: Acknowledgement,
        group_id: str | None,
        shower: Shower | None,
    ) -> tuple[Outcomes, dict[int, int]]:
        """`settle` without a second try, and by the places of receipts which node was asked."""
        outcomes: Outcomes = [None] * len(receipts)
        by_node: defaultdict[int, list[int]] = defaultdict(list)
        everywhere: list[int] = []
        for at, receipt in enumerate(receipts):
            shard = self._shard(receipt, group_id)
            if shard is None:
                everywhere.append(at)
                continue
            try:
                by_node[self._leader(shard)].append(at)
            except UnknownPartitionError:
                outcomes[at] = UnknownReceiptError(f"no delivery has the receipt {receipt}")
            except GoQueueError as error:
                outcomes[at] = error
        asked = [
            self._ask(node_id, [receipts[at] for at in places], acknowledgement, group_id, shower)
            for node_id, places in by_node.items()
        ]
        answers = await asyncio.gather(*asked)
        for places, found in zip(by_node.values(), answers, strict=True):
            for at, outcome in zip(places, found, strict=True):
                outcomes[at] = outcome
        if everywhere:
            old = [receipts[at] for at in everywhere]
            found = await self._ask_all(old, acknowledgement, shower)
            for at, outcome in zip(everywhere, found, strict=True):
                outcomes[at] = outcome
        return outcomes, {at: node_id for node_id, places in by_node.items() for at in places}

    def _shard(self, receipt: Receipt, group_id: str | None) -> int | None:
        if receipt.shard is None and group_id is not None:
            return self._queues.shard_number(group_id)
        return receipt.shard

    def _keeper(self, receipt: Receipt, group_id: str | None) -> int | None:
        """The node that keeps the group of a receipt, as far as this one knows."""
        shard = self._shard(receipt, group_id)
        try:
            return None if shard is None else self._leader(shard)
        except GoQueueError:
            return None

    def _leader(self, shard: int) -> int:
        return self._routes.leader_of(TopicPartition(QUEUE_TOPIC, shard))

    async def _ask_all(
        self, receipts: list[Receipt], acknowledgement: Acknowledgement, shower: Shower | None
    ) -> Outcomes:
        nodes = [self._routes.node_id, *self._routes.others()]
        told = await asyncio.gather(
            *(self._ask(node_id, receipts, acknowledgement, None, shower) for node_id in nodes)
        )
        return [_best(outcomes) for outcomes in zip(*told, strict=True)]

    async def _ask(
        self,
        node_id: int,
        receipts: list[Receipt],
        acknowledgement: Acknowledgement,
        group_id: str | None,
        shower: Shower | None,
    ) -> Outcomes:
        """What a node says of receipts; an error of the node is one of each of them."""
        try:
            if node_id == self._routes.node_id:
                return await self.settle_here(
                    receipts, acknowledgement, group_id=group_id, shower=shower
                )
            answer = await self._told(node_id, receipts, acknowledgement, group_id, shower)
        except InvariantError:
            raise
        except GoQueueError as error:
            return [error] * len(receipts)
        if answer.error_name:
            return [named_error(answer.error_name, answer.error_message)] * len(receipts)
        return [_outcome(each) for each in answer.outcomes]

    async def _told(
        self,
        node_id: int,
        receipts: list[Receipt],
        acknowledgement: Acknowledgement,
        group_id: str | None,
        shower: Shower | None,
    ) -> Struct:
        """The answer of another node, as long as that keeps the groups of all receipts."""
        texts = [str(each) for each in receipts]
        shards = {
            each for receipt in receipts if (each := self._shard(receipt, group_id)) is not None
        }
        size_bytes = sum(map(len, texts)) + len(texts) * _RECEIPT_BYTES
        delay_ms = acknowledgement.delay_ms
        try:
            return await self._forwards.ask(
                node_id,
                ApiKey.SETTLE_RECEIPTS,
                size_bytes=size_bytes + len(acknowledgement.reason),
                deadline_s=_ANSWER_S,
                stays=lambda: all(self._leader(each) == node_id for each in shards),
                wait_s=0.0,
                group_id=group_id or "",
                verdict=acknowledgement.verdict,
                reason=acknowledgement.reason,
                delay_ms=NO_DELAY if delay_ms is None else delay_ms,
                principal=b"" if shower is None else msgspec.json.encode(shower.principal),
                host="" if shower is None else shower.host,
                receipts=[{"receipt": each} for each in texts],
            )
        except TimeoutError:
            raise PeerUnavailableError(
                f"node {node_id} has not answered within {_ANSWER_S:g} s: whether the receipts "
                "count is not known, try again"
            ) from None

    async def settle_here(
        self,
        receipts: Sequence[Receipt],
        acknowledgement: Acknowledgement,
        *,
        group_id: str | None = None,
        shower: Shower | None = None,
    ) -> Outcomes:
        """`settle` of receipts whose groups this node keeps."""
        outcomes: Outcomes = [None] * len(receipts)
        by_shard: defaultdict[int | None, list[int]] = defaultdict(list)
        for at, receipt in enumerate(receipts):
            by_shard[receipt.shard].append(at)
        for number, places in by_shard.items():
            some = [receipts[at] for at in places]
            if number is None:
                found = await self._settle_anywhere(some, acknowledgement, group_id, shower)
            else:
                found = await self._settle_at(number, some, acknowledgement, group_id, shower)
            for at, outcome in zip(places, found, strict=True):
                outcomes[at] = outcome
        return outcomes

    async def _settle_anywhere(
        self,
        receipts: Sequence[Receipt],
        acknowledgement: Acknowledgement,
        group_id: str | None,
        shower: Shower | None,
    ) -> Outcomes:
        """Show receipts that name no shard to all of this node."""
        told = [
            await self._settle_at(number, receipts, acknowledgement, group_id, shower)
            for number in self._queues.opened_shards()
        ]
        if not told:
            return [UnknownReceiptError(f"no group here knows the receipt {r}") for r in receipts]
        return [_best(outcomes) for outcomes in zip(*told, strict=True)]

    async def _settle_at(
        self,
        number: int,
        receipts: Sequence[Receipt],
        acknowledgement: Acknowledgement,
        group_id: str | None,
        shower: Shower | None,
    ) -> Outcomes:
        try:
            shard = self._queues.readable_shard(number)
            term = Term(shard.state, shard.state.epoch)
            outcomes = await self.settle_in(shard, receipts, acknowledgement, group_id, shower)
        except CoordinatorUnavailableError as error:
            return [error] * len(receipts)
        if not any(isinstance(each, ReceiptError) for each in outcomes):
            return outcomes
        try:
            await self._queues.be_certain(term)
        except CoordinatorUnavailableError as doubt:
            return [doubt if isinstance(each, ReceiptError) else each for each in outcomes]
        return outcomes


def _outcome(told: object) -> GoQueueError | None:
    name: str = getattr(told, "error_name", "")
    if not name:
        return None
    error = named_error(name, getattr(told, "message", ""))
    if isinstance(error, UnknownReceiptError):
        error.is_done = getattr(told, "is_done", 0)
    return error


def _best(outcomes: Sequence[GoQueueError | None]) -> GoQueueError | None:
    """What counts of the answers of several that know nothing of each other.

    A receipt counts where it counts. Where one could not tell, it may yet count there.
    """
    found: GoQueueError | None = None
    for each in outcomes:
        if each is None:
            return None
        if found is None or _rank(each) < _rank(found):
            found = each
    return found


def _rank(error: GoQueueError) -> int:
    if not isinstance(error, UnknownReceiptError | ExpiredReceiptError | ForeignReceiptError):
        return 1 if isinstance(error, CoordinatorLoadingError) else 0
    return 3 if isinstance(error, UnknownReceiptError) else 2
