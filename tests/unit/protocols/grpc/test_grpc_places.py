"""Where a call goes that names nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.internal_topics import TRANSACTION_STATE
from goqueue.protocols.grpc.places import Group, Transaction
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from support.cluster_brokers import one_of_three
from support.scenarios import scenario

if TYPE_CHECKING:
    from pathlib import Path


@scenario
async def test_an_empty_name_belongs_to_its_coordinator_which_refuses_it(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        await made.offsets_topic(2, 2)
        await made.internal_topic(TRANSACTION_STATE, 3, 3)
        unnamed = pb.SubscribeRequest(join=pb.SubscribeJoin(topics=["t"]))
        group = await Group("join.group").locate(made.broker, unnamed)
        request = pb.InitTransactionalProducerRequest(transactional_id="")
        transaction = await Transaction("transactional_id").locate(made.broker, request)
        assert group is not None
        assert transaction is not None
        assert (group(), transaction()) == (2, 3)


@scenario
async def test_a_stream_that_does_not_begin_with_its_group_is_answered_where_it_is(
    tmp_path: Path,
) -> None:
    async with one_of_three(tmp_path) as made:
        await made.offsets_topic(2, 2)
        assert await Group("join.group").locate(made.broker, pb.SubscribeRequest()) is None
