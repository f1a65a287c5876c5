"""Three real nodes: calls of gRPC sent to the wrong one."""

from __future__ import annotations

import queue
import time
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from goqueue.testing import Cluster
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb, goqueue_pb2_grpc as services
from support.etcd import need_etcd
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NODES = (1, 2, 3)
TOPIC = "orders"


class Nodes:
    """The services of every node."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.channels = {
            node: grpc.insecure_channel(cluster.grpc_address(node), [("grpc.enable_retries", 0)])
            for node in NODES
        }

    def close(self) -> None:
        for channel in self.channels.values():
            channel.close()

    def offsets(self, node: int) -> Any:
        return services.OffsetServiceStub(self.channels[node])

    def admin(self, node: int) -> Any:
        return services.AdminServiceStub(self.channels[node])

    def commit(self, node: int, group: str, offset: int) -> grpc.Call:
        offsets = [pb.PartitionOffset(topic=TOPIC, partition=0, offset=offset)]
        request = pb.CommitOffsetsRequest(group=group, offsets=offsets)
        _, call = self.offsets(node).CommitOffsets.with_call(request, timeout=60)
        return call

    def surely(self, call: Callable[[], Any]) -> Any:
        """What a call returns to a client that tries again when it is told to."""
        answers = []

        def is_answered() -> bool:
            try:
                answers.append(call())
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
                return False
            return True

        eventually(is_answered)
        return answers[0]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    need_etcd()
    with Cluster(nodes=3) as cluster:
        nodes = Nodes(cluster)
        nodes.surely(
            lambda: nodes.admin(1).CreateTopic(pb.CreateTopicRequest(name=TOPIC, partitions=3))
        )
        yield nodes
        nodes.close()


def trailers(call: Any) -> dict[str, Any]:
    return dict(call.trailing_metadata() or ())


def test_offsets_of_a_group_are_committed_and_read_through_any_node(nodes):
    group = Cluster.unique_name()
    detours = []
    for node in NODES:
        call = nodes.surely(lambda node=node: nodes.commit(node, group, 10 + node))
        detours.append(trailers(call).get("goqueue-coordinator"))
        for reader in NODES:
            partitions = [pb.TopicPartition(topic=TOPIC, partition=0)]
            request = pb.FetchOffsetsRequest(group=group, partitions=partitions)
            (found,) = nodes.surely(
                lambda reader=reader, request=request: nodes.offsets(reader).FetchOffsets(request)
            ).offsets
            assert found.offset == 10 + node
    (there,) = [node for node, detour in zip(NODES, detours, strict=True) if detour is None]
    addresses = {each for each in detours if each is not None}
    assert addresses == {nodes.cluster.grpc_address(there)}, "where it is answered directly"


def test_the_groups_of_all_nodes_are_listed_described_and_deleted_on_each(nodes):
    groups = {Cluster.unique_name() for _ in range(6)}
    for group in groups:
        nodes.surely(lambda group=group: nodes.commit(1, group, 0))
    for node in NODES:
        listed = nodes.admin(node).ListGroups(pb.ListGroupsRequest())
        assert groups <= {each.name for each in listed.groups}
        for group in groups:
            assert nodes.admin(node).DescribeGroup(pb.GroupRequest(name=group)).name == group
    for number, group in enumerate(sorted(groups)):
        nodes.admin(NODES[number % 3]).DeleteGroup(pb.GroupRequest(name=group))
    for node in NODES:
        left = nodes.admin(node).ListGroups(pb.ListGroupsRequest()).groups
        assert not groups & {each.name for each in left}


def test_the_transactions_of_all_nodes_are_listed_on_each(nodes):
    names = sorted(Cluster.unique_name() for _ in range(6))
    for number, name in enumerate(names):
        service = services.TransactionServiceStub(nodes.channels[NODES[number % 3]])
        request = pb.InitTransactionalProducerRequest(transactional_id=name)
        made = nodes.surely(lambda ask=service.InitProducer, request=request: ask(request))
        who = pb.ProducerIdentity(producer_id=made.producer_id, epoch=made.epoch)
        begun = pb.TransactionRequest(producer=who, transactional_id=name)
        nodes.surely(lambda ask=service.BeginTransaction, begun=begun: ask(begun))
    for node in NODES:
        listed, call = services.TransactionServiceStub(
            nodes.channels[node]
        ).ListTransactions.with_call(pb.ListTransactionsRequest(states=["Ongoing"]))
        assert [each.transactional_id for each in listed.transactions] == names
        assert "goqueue-unanswered" not in trailers(call)


def test_a_refusal_of_another_node_reads_as_one_of_this_node(nodes):
    group = Cluster.unique_name()
    told = []
    for node in NODES:
        with pytest.raises(grpc.RpcError) as refused:
            nodes.admin(node).DescribeGroup(pb.GroupRequest(name=group))
        error = pb.Error.FromString(trailers(refused.value)["goqueue-error-bin"])
        told.append((refused.value.code(), refused.value.details(), error.name))
    assert told[0][0] is grpc.StatusCode.NOT_FOUND
    assert told[0] == told[1] == told[2]


class Member:
    """A member of a queue group, on a stream to one node."""

    def __init__(self, nodes: Nodes, node: int, topic: str, group: str) -> None:
        self._sending: queue.Queue[Any] = queue.Queue()
        join = pb.SubscribeJoin(group=group, topics=[topic], assignment=pb.ASSIGNMENT_SHARED)
        self._sending.put(pb.SubscribeRequest(join=join))
        stub = services.ConsumeServiceStub(nodes.channels[node])
        self.call = stub.Subscribe(iter(self._sending.get, None))

    def take(self, count: int) -> list[bytes]:
        """Receive and acknowledge so many messages."""
        taken: list[bytes] = []
        for response in self.call:
            if response.WhichOneof("event") == "batch":
                found = list(response.batch.messages)
                taken += (each.value for each in found)
                settle = pb.SubscribeSettle(
                    correlation_id=1,
                    verdict=pb.VERDICT_ACK,
                    delivery_ids=[each.delivery_id for each in found],
                )
                self._sending.put(pb.SubscribeRequest(settle=settle))
            if len(taken) >= count:
                break
        return taken

    def end(self) -> grpc.StatusCode:
        """How the stream ends, if by an error."""
        with pytest.raises(grpc.RpcError) as ended:
            for _ in self.call:
                pass
        self.close()
        code: grpc.StatusCode = ended.value.code()
        return code

    def close(self) -> None:
        self._sending.put(None)


def test_a_stream_of_a_member_passes_through_any_node_and_ends_when_its_coordinator_dies(nodes):
    group, topic = Cluster.unique_name(), Cluster.unique_name()
    nodes.surely(
        lambda: nodes.admin(1).CreateTopic(pb.CreateTopicRequest(name=topic, partitions=3))
    )
    messages = [pb.NewMessage(value=b"%d" % number) for number in range(50)]
    publish = pb.PublishRequest(topic=topic, messages=messages)
    for node in NODES:
        publisher = services.PublishServiceStub(nodes.channels[node])
        results = nodes.surely(lambda publisher=publisher: publisher.Publish(publish)).results
        assert not [each.error for each in results if each.HasField("error")]
        member = Member(nodes, node, topic, group)
        assert sorted(member.take(50)) == sorted(each.value for each in messages)
        member.close()
        for _ in member.call:
            pass
        assert member.call.code() is grpc.StatusCode.OK
    there, here = split(nodes, group)
    member = Member(nodes, here, topic, group)
    next(iter(member.call))
    nodes.cluster.kill(there)
    assert member.end() is grpc.StatusCode.UNAVAILABLE
    nodes.cluster.start(there)


def described(nodes: Nodes, node: int, group: str) -> Any:
    return nodes.surely(
        lambda: nodes.admin(node).DescribeGroup.with_call(pb.GroupRequest(name=group))
    )[1]


def split(nodes: Nodes, group: str) -> tuple[int, int]:
    """The node that coordinates a group, and one that does not."""
    (there,) = [
        node
        for node in NODES
        if "goqueue-coordinator" not in trailers(described(nodes, node, group))
    ]
    return there, next(node for node in NODES if node != there)


def test_a_node_that_is_paused_is_waited_for_until_the_deadline_of_a_call_or_until_its_group_moves(
    nodes,
):
    group = Cluster.unique_name()
    first = Member(nodes, 1, TOPIC, group)
    next(iter(first.call))
    there, here = split(nodes, group)
    member = Member(nodes, here, TOPIC, group)
    next(iter(member.call))
    nodes.cluster.pause(there)
    try:
        began_s = time.monotonic()
        with pytest.raises(grpc.RpcError) as refused:
            nodes.admin(here).DescribeGroup(pb.GroupRequest(name=group), timeout=0.5)
        assert time.monotonic() - began_s < 5
        assert refused.value.code() in {
            grpc.StatusCode.DEADLINE_EXCEEDED,
            grpc.StatusCode.UNAVAILABLE,
        }
        assert member.end() is grpc.StatusCode.UNAVAILABLE
        assert time.monotonic() - began_s < 30
        nodes.surely(lambda: next(iter(Member(nodes, here, TOPIC, group).call)))
    finally:
        nodes.cluster.resume(there)
        first.close()
    eventually(lambda: "goqueue-unanswered" not in trailers(listed(nodes, here)))


def listed(nodes: Nodes, node: int) -> Any:
    return nodes.admin(node).ListGroups.with_call(pb.ListGroupsRequest(), timeout=60)[1]


def test_a_node_that_is_killed_is_named_and_answered_for_by_the_next_one(nodes):
    group = Cluster.unique_name()
    nodes.surely(lambda: nodes.commit(1, group, 1))
    (there,) = [
        node
        for node in NODES
        if "goqueue-coordinator" not in trailers(nodes.commit(node, group, 2))
    ]
    here, other = (node for node in NODES if node != there)
    nodes.cluster.kill(there)
    assert trailers(listed(nodes, other))["goqueue-unanswered"] == str(there)
    nodes.surely(lambda: nodes.commit(here, group, 3))
    nodes.cluster.start(there)
