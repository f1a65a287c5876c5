"""Transactions: what a producer does in one, from its first partition to its end."""

from __future__ import annotations

import asyncio
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from goqueue.groups.messages import CommitRequest, OffsetToCommit
from goqueue.model.errors import GoQueueError, InvalidGroupIdError
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.markers import Marker
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import (
    ID_WRITE,
    READ,
    TOPIC_WRITE,
    WRITE,
    all_of,
    code_of,
    each_topic,
    group,
    transactional_id,
    within,
)
from goqueue.protocols.kafka.transactions.fenced_codes import known_to
from goqueue.transactions.messages import EndRequest, Identity
from goqueue.transactions.series import Member, TogetherRequest
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.context import RequestContext, Response, Struct


class AtomicCommitApi:
    """Serves jobs that write in batches, with a transaction for each of their tasks."""

    def __init__(self, broker: Broker) -> None:
        self._transactions = broker.transactions

    @api(
        ApiKey.COMMIT_TOGETHER,
        right=all_of(transactional_id(WRITE, "series"), within(ID_WRITE, note="each member")),
    )
    async def commit_together(self, ctx: RequestContext, request: Struct) -> Response:
        """Commit a batch, or abort it. Asked again, the answer is the same."""
        for each in request.members:
            ctx.may.require(ID_WRITE, each.transactional_id)
        wanted = TogetherRequest(
            series=request.series,
            number=request.number,
            keep_ms=request.keep_ms,
            members=tuple(
                Member(each.transactional_id, Identity(each.producer_id, each.producer_epoch))
                for each in request.members
            ),
        )
        is_new = False
        if request.committed:
            is_new = await self._transactions.commit_together(wanted)
        else:
            await self._transactions.abort_together(wanted)
        return {"error_code": ErrorCode.none, "is_new": is_new}


_BATCHED_FROM: Final = 4
_ABORTABLE_FROM: Final = 5
_FENCED_FROM: Final = 2
_IMPLICIT_OFFSETS_FROM: Final = 5
_RENEWED_FROM: Final = 5


def _refused(ctx: RequestContext, request: Struct, code: ErrorCode) -> Response:
    return {"error_code": known_to(ctx.version, code, fenced_from=_FENCED_FROM)}


def _unstaged(topic: Struct, code: ErrorCode) -> dict[str, Any]:
    return {
        "name": topic.name,
        "partitions": [
            {"partition_index": each.partition_index, "error_code": code}
            for each in topic.partitions
        ],
    }


def _none_staged(_ctx: RequestContext, request: Struct, code: ErrorCode) -> Response:
    return {"topics": [_unstaged(topic, code) for topic in request.topics]}


class TransactionsApi:
    """Serves transactional producers."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._transactions = broker.transactions

    # --- AddPartitionsToTxn ----------------------------------------------------------------------

    @api(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        right=all_of(within(ID_WRITE, note="each"), within(TOPIC_WRITE, note="each")),
    )
    async def add_partitions(self, ctx: RequestContext, request: Struct) -> Response:
        """Let transactions write to partitions, or only look whether they may."""
        if ctx.version >= _BATCHED_FROM:
            found = await asyncio.gather(*(self._add(ctx, each) for each in request.transactions))
            return {
                "error_code": ErrorCode.none,
                "results_by_transaction": [
                    {"transactional_id": each.transactional_id, "topic_results": _by_topic(codes)}
                    for each, codes in zip(request.transactions, found, strict=True)
                ],
            }
        codes = await self._add_partitions(
            ctx,
            request.v3_and_below_transactional_id,
            Identity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
            _places(request.v3_and_below_topics),
        )
        return {"results_by_topic_v3_and_below": _by_topic(codes)}

    async def _add(self, ctx: RequestContext, each: Struct) -> dict[TopicPartition, ErrorCode]:
        identity = Identity(each.producer_id, each.producer_epoch)
        places = _places(each.topics)
        if not ctx.may.permits(ID_WRITE, each.transactional_id):
            return dict.fromkeys(places, code_of(ID_WRITE))
        if each.verify_only:
            # That the partition was added is committed: a producer writes when it is told so. To
            # wait for what was stored since would cost each transaction a round among replicas.
            return {place: self._verified(ctx, each, place) for place in places}
        return await self._add_partitions(ctx, each.transactional_id, identity, places)

    async def _add_partitions(
        self,
        ctx: RequestContext,
        transactional_id: str,
        identity: Identity,
        places: list[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        """All or none, as in Kafka: one that does not exist keeps the others out."""
        if not ctx.may.permits(ID_WRITE, transactional_id):
            return dict.fromkeys(places, code_of(ID_WRITE))
        await self._look_for(place.topic for place in places)
        codes = {place: self._missing(ctx, place) for place in places}
        if any(codes.values()):
            return {
                place: code or ErrorCode.operation_not_attempted for place, code in codes.items()
            }
        try:
            await self._transactions.add_partitions(transactional_id, identity, places)
        except GoQueueError as error:
            code = known_to(ctx.version, code_for(error), fenced_from=_FENCED_FROM)
            return dict.fromkeys(places, code)
        return codes

    def _missing(self, ctx: RequestContext, place: TopicPartition) -> ErrorCode:
        """Why a partition cannot be added. Nodes add those of groups, whose offsets they stage."""
        if not ctx.may.permits(TOPIC_WRITE, place.topic):
            return code_of(TOPIC_WRITE)
        try:
            topic = self._broker.topics.catalogue.require(place)
        except GoQueueError as error:
            return code_for(error)
        is_refused = topic.is_internal and ctx.peer.session.node is None
        return ErrorCode.topic_authorization_failed if is_refused else ErrorCode.none

    async def _look_for(self, names: Iterable[str]) -> None:
        """Ask the store for topics that this node does not know: another has just made them."""
        topics = self._broker.topics
        if any(name not in topics.catalogue.by_name for name in names):
            await topics.refresh()

    def _verified(self, ctx: RequestContext, asked: Struct, place: TopicPartition) -> ErrorCode:
        """Whether a partition is part of the transaction; nothing is added."""
        identity = Identity(asked.producer_id, asked.producer_epoch)
        try:
            self._transactions.verify(identity, place, asked.transactional_id)
        except GoQueueError as error:
            return _abortable(code_for(error), ctx.version)
        return ErrorCode.none

    # --- Offsets ---------------------------------------------------------------------------------

    @api(
        ApiKey.ADD_OFFSETS_TO_TXN,
        right=all_of(transactional_id(WRITE), group(READ)),
        on_error=_refused,
    )
    async def add_offsets(self, ctx: RequestContext, request: Struct) -> Response:
        """Let a transaction commit offsets of a group."""
        if not request.group_id:
            raise InvalidGroupIdError("the group id is empty")
        identity = Identity(request.producer_id, request.producer_epoch)
        await self._transactions.add_offsets(request.transactional_id, identity, request.group_id)
        return {"error_code": ErrorCode.none}

    @api(
        ApiKey.TXN_OFFSET_COMMIT,
        right=all_of(transactional_id(WRITE), group(READ), each_topic(READ, _unstaged)),
        on_error=_none_staged,
    )
    async def txn_offset_commit(self, ctx: RequestContext, request: Struct) -> Response:
        """Note offsets that count when the transaction commits; one result for each partition."""
        await self._look_for(topic.name for topic in request.topics)
        codes: dict[TopicPartition, ErrorCode] = {}
        offsets = []
        for topic in request.topics:
            for each in topic.partitions:
                place = TopicPartition(topic.name, each.partition_index)
                codes[place] = self._absent(place)
                if not codes[place]:
                    offsets.append(
                        OffsetToCommit(
                            topic=topic.name,
                            partition=each.partition_index,
                            offset=each.committed_offset,
                            leader_epoch=each.committed_leader_epoch,
                            metadata=each.committed_metadata or "",
                        )
                    )
        commit = CommitRequest(
            group_id=request.group_id,
            member_id=request.member_id,
            generation_or_epoch=request.generation_id,
            instance_id=request.group_instance_id,
            offsets=tuple(offsets),
        )
        codes |= await self._stage(ctx, request, commit)
        return {
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        {
                            "partition_index": each.partition_index,
                            "error_code": codes[TopicPartition(topic.name, each.partition_index)],
                        }
                        for each in topic.partitions
                    ],
                }
                for topic in request.topics
            ]
        }

    def _absent(self, place: TopicPartition) -> ErrorCode:
        try:
            self._broker.topics.catalogue.require(place)
        except GoQueueError as error:
            return code_for(error)
        return ErrorCode.none

    async def _stage(
        self, ctx: RequestContext, request: Struct, commit: CommitRequest
    ) -> dict[TopicPartition, ErrorCode]:
        """The codes of the partitions that exist."""
        identity = Identity(request.producer_id, request.producer_epoch)
        transactional_id = request.transactional_id
        try:
            if not request.group_id:
                raise InvalidGroupIdError("the group id is empty")
            outcomes = await self._transactions.stage_offsets(
                transactional_id, identity, commit, adds=ctx.version >= _IMPLICIT_OFFSETS_FROM
            )
        except GoQueueError as error:
            code = _abortable(code_for(error), ctx.version)
            return {TopicPartition(each.topic, each.partition): code for each in commit.offsets}
        return {
            TopicPartition(*place): ErrorCode.none if refusal is None else code_for(refusal)
            for place, refusal in outcomes.partitions
        }

    # --- EndTxn ----------------------------------------------------------------------------------

    @api(ApiKey.END_TXN, right=transactional_id(WRITE), on_error=_refused)
    async def end_txn(self, ctx: RequestContext, request: Struct) -> Response:
        """Commit or abort. From version 5 on the producer goes on in the epoch that it is told."""
        identity = Identity(request.producer_id, request.producer_epoch)
        marker = Marker.COMMIT if request.committed else Marker.ABORT
        if ctx.version >= _RENEWED_FROM:
            asked = EndRequest(request.transactional_id, identity, marker)
            identity = await self._transactions.end_and_renew(asked)
        else:
            await self._transactions.end(request.transactional_id, identity, marker)
        return {
            "error_code": ErrorCode.none,
            "producer_id": identity.producer_id,
            "producer_epoch": identity.epoch,
        }


def _abortable(code: ErrorCode, version: int) -> ErrorCode:
    """A code in the words of a version: newer ones tell apart what an abort cures (KIP-1050)."""
    if code is ErrorCode.invalid_txn_state and version >= _ABORTABLE_FROM:
        return ErrorCode.transaction_abortable
    return code


def _places(topics: Iterable[Struct]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]


def _by_topic(codes: dict[TopicPartition, ErrorCode]) -> list[dict[str, Any]]:
    return [
        {
            "name": topic,
            "results_by_partition": [
                {"partition_index": place.partition, "partition_error_code": code}
                for place, code in group
            ],
        }
        for topic, group in groupby(sorted(codes.items()), key=lambda item: item[0].topic)
    ]
