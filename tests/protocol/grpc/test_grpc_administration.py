from __future__ import annotations

import grpc
import pytest

from goqueue.publishing.new_messages import NewMessage
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from support.grpc_node import run


async def refused(call):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details()


# --- Topics ---------------------------------------------------------------------------------------


def test_a_topic_from_its_making_to_its_end(tmp_path):
    async def scenario(node):
        admin = node.stubs.admin
        made = await admin.CreateTopic(
            pb.CreateTopicRequest(
                name="t", partitions=2, settings={"retention.ms": "1000"}, replication_factor=1
            )
        )
        assert (made.name, len(made.partitions)) == ("t", 2)
        assert dict(made.settings) == {"retention.ms": "1000"}
        await node.broker.writer.publish("t", [NewMessage(b"v", partition=1)])
        seen = await admin.DescribeTopic(pb.TopicRequest(name="t"))
        assert [(each.log_start, each.log_end) for each in seen.partitions] == [(0, 0), (0, 1)]
        assert seen.partitions[1].size_bytes > 0
        changed = await admin.ConfigureTopic(
            pb.ConfigureTopicRequest(
                name="t", set={"cleanup.policy": "compact"}, unset=["retention.ms"]
            )
        )
        assert dict(changed.settings) == {"cleanup.policy": "compact"}
        grown = await admin.GrowTopic(pb.GrowTopicRequest(name="t", partitions=5))
        assert (len(grown.partitions), grown.topic_id) == (5, made.topic_id)
        here = pb.ReplicaAssignment(node_ids=[node.broker.settings.node_id])
        grown = await admin.GrowTopic(
            pb.GrowTopicRequest(name="t", partitions=6, replica_assignments=[here])
        )
        assert len(grown.partitions) == 6
        elsewhere = pb.ReplicaAssignment(node_ids=[77])
        for wrong in ([elsewhere], [here, here]):
            code, told = await refused(
                admin.GrowTopic(
                    pb.GrowTopicRequest(name="t", partitions=7, replica_assignments=wrong)
                )
            )
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert "assigned" in told
        await admin.DeleteTopic(pb.TopicRequest(name="t"))
        code, _ = await refused(admin.DescribeTopic(pb.TopicRequest(name="t")))
        assert code is grpc.StatusCode.NOT_FOUND

    run(tmp_path, scenario)


def test_a_list_shows_the_broker_s_own_topics_only_when_asked(tmp_path):
    async def scenario(node):
        for name in ("b", "a"):
            await node.broker.create_topic(name, 1)
        plain = await node.stubs.admin.ListTopics(pb.ListTopicsRequest())
        everything = await node.stubs.admin.ListTopics(pb.ListTopicsRequest(include_internal=True))
        assert [each.name for each in plain.topics] == ["a", "b"]
        internal = {each.name for each in everything.topics if each.is_internal}
        assert "__consumer_offsets" in internal
        assert internal.isdisjoint({"a", "b"})

    run(tmp_path, scenario)


def test_a_topic_without_a_number_of_partitions_gets_the_default(tmp_path):
    async def scenario(node):
        made = await node.stubs.admin.CreateTopic(pb.CreateTopicRequest(name="t"))
        assert len(made.partitions) == 4

    run(tmp_path, scenario, default_partitions=4)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (pb.CreateTopicRequest(name="../x"), grpc.StatusCode.INVALID_ARGUMENT),
        (pb.CreateTopicRequest(name=""), grpc.StatusCode.INVALID_ARGUMENT),
        (pb.CreateTopicRequest(name="x" * 300), grpc.StatusCode.INVALID_ARGUMENT),
        (pb.CreateTopicRequest(name="n", partitions=0), grpc.StatusCode.INVALID_ARGUMENT),
        (pb.CreateTopicRequest(name="n", partitions=-1), grpc.StatusCode.INVALID_ARGUMENT),
        (
            pb.CreateTopicRequest(name="n", settings={"no.such": "1"}),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        (pb.CreateTopicRequest(name="t"), grpc.StatusCode.ALREADY_EXISTS),
        (
            pb.CreateTopicRequest(name="n", replication_factor=7),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
    ],
)
def test_a_topic_that_cannot_be_made_is_not(tmp_path, request_, code):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        before = set(node.broker.topics.catalogue.by_name)
        assert (await refused(node.stubs.admin.CreateTopic(request_)))[0] is code
        assert set(node.broker.topics.catalogue.by_name) == before

    run(tmp_path, scenario)


def test_a_setting_cannot_be_set_and_taken_back_at_once(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        request = pb.ConfigureTopicRequest(name="t", set={"a": "1"}, unset=["a"])
        code, text = await refused(node.stubs.admin.ConfigureTopic(request))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert "unset" in text

    run(tmp_path, scenario)


def test_the_broker_s_own_topics_cannot_be_deleted(tmp_path):
    async def scenario(node):
        request = pb.TopicRequest(name="__consumer_offsets")
        code, _ = await refused(node.stubs.admin.DeleteTopic(request))
        assert code is grpc.StatusCode.PERMISSION_DENIED

    run(tmp_path, scenario)


# --- Groups and offsets ---------------------------------------------------------------------------


async def commit(node, group="g", **offsets):
    places = [
        pb.PartitionOffset(topic="t", partition=int(name[1:]), offset=offset)
        for name, offset in offsets.items()
    ]
    answer = await node.stubs.offsets.CommitOffsets(
        pb.CommitOffsetsRequest(group=group, offsets=places)
    )
    return [each.error.name for each in answer.outcomes]


async def prepared(node, count=10):
    await node.broker.create_topic("t", 2)
    for number in range(2):
        new = [NewMessage(b"v", partition=number, timestamp_ms=1000 + at) for at in range(count)]
        await node.broker.writer.publish("t", new)


def test_offsets_are_committed_and_fetched_with_their_lag(tmp_path):
    async def scenario(node):
        await prepared(node)
        assert await commit(node, p0=4, p9=1) == ["", "UnknownPartitionError"]
        answer = await node.stubs.offsets.FetchOffsets(pb.FetchOffsetsRequest(group="g"))
        assert [(each.partition, each.offset, each.lag) for each in answer.offsets] == [(0, 4, 6)]
        asked = [pb.TopicPartition(topic="t", partition=number) for number in (1, 0)]
        answer = await node.stubs.offsets.FetchOffsets(
            pb.FetchOffsetsRequest(group="g", partitions=asked)
        )
        assert [
            (each.partition, each.HasField("offset"), each.offset, each.log_end)
            for each in answer.offsets
        ] == [(1, False, 0, 10), (0, True, 4, 10)]

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("to", "after"),
    [
        ({"to": pb.START_EARLIEST}, [0, 0]),
        ({"to": pb.START_LATEST}, [10, 10]),
        ({"to": pb.START_OFFSET, "offset": 6}, [6, 6]),
        ({"to": pb.START_TIMESTAMP, "timestamp_ms": 1003}, [3, 3]),
        ({"to": pb.START_LATEST, "partitions": [1]}, [10]),
    ],
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_reset_moves_the_group_or_says_what_it_would_do(tmp_path, to, after, dry_run):
    async def scenario(node):
        await prepared(node)
        await commit(node, p0=4)
        request = pb.ResetOffsetsRequest(group="g", topic="t", dry_run=dry_run, **to)
        answer = await node.stubs.offsets.ResetOffsets(request)
        assert [each.after for each in answer.changes] == after
        before = {each.partition: each.HasField("before") for each in answer.changes}
        assert before == {number: number == 0 for number in before}
        found = await node.stubs.offsets.FetchOffsets(pb.FetchOffsetsRequest(group="g"))
        stored = {each.partition: each.offset for each in found.offsets}
        moved = {each.partition: each.after for each in answer.changes}
        assert stored == ({0: 4} if dry_run else {0: 4} | moved)

    run(tmp_path, scenario)


def test_a_group_with_members_is_not_reset_or_deleted(tmp_path):
    async def scenario(node):
        await prepared(node)
        call = node.stubs.consume.Subscribe()
        await call.write(pb.SubscribeRequest(join=pb.SubscribeJoin(group="g", topics=["t"])))
        await call.read()
        request = pb.ResetOffsetsRequest(group="g", topic="t", to=pb.START_LATEST)
        code, text = await refused(node.stubs.offsets.ResetOffsets(request))
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        assert "members" in text
        code, _ = await refused(node.stubs.admin.DeleteGroup(pb.GroupRequest(name="g")))
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        call.cancel()

    run(tmp_path, scenario)


def test_a_group_is_listed_described_and_deleted(tmp_path):
    async def scenario(node):
        await prepared(node)
        join = pb.SubscribeJoin(group="g", topics=["t"], client_id="me")
        call = node.stubs.consume.Subscribe()
        await call.write(pb.SubscribeRequest(join=join))
        await call.read()
        (listed,) = (await node.stubs.admin.ListGroups(pb.ListGroupsRequest())).groups
        assert (listed.name, listed.protocol, listed.member_count) == ("g", "consumer", 1)
        seen = await node.stubs.admin.DescribeGroup(pb.GroupRequest(name="g"))
        (member,) = seen.members
        assert (member.client_id, len(member.partitions)) == ("me", 2)
        assert member.client_host == "127.0.0.1"
        await call.done_writing()
        while await call.read() is not grpc.aio.EOF:
            pass
        assert await commit(node, p0=1) == [""]
        seen = await node.stubs.admin.DescribeGroup(pb.GroupRequest(name="g"))
        found = [(each.partition, each.offset, each.lag) for each in seen.offsets]
        assert found == [(0, 1, 9), (1, 0, 10)]
        assert not seen.offsets[1].HasField("offset")  # it has committed nothing there
        await node.stubs.admin.DeleteGroup(pb.GroupRequest(name="g"))
        assert not (await node.stubs.admin.ListGroups(pb.ListGroupsRequest())).groups

    run(tmp_path, scenario)


@pytest.mark.parametrize("method", ["DescribeGroup", "DeleteGroup"])
def test_a_group_that_does_not_exist_is_not_found(tmp_path, method):
    async def scenario(node):
        call = getattr(node.stubs.admin, method)(pb.GroupRequest(name="nobody"))
        assert (await refused(call))[0] is grpc.StatusCode.NOT_FOUND

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("CommitOffsets", pb.CommitOffsetsRequest()),
        ("FetchOffsets", pb.FetchOffsetsRequest()),
        ("ResetOffsets", pb.ResetOffsetsRequest(topic="t")),
    ],
)
def test_a_group_needs_a_name(tmp_path, method, request_):
    async def scenario(node):
        await prepared(node)
        call = getattr(node.stubs.offsets, method)(request_)
        assert (await refused(call))[0] is grpc.StatusCode.INVALID_ARGUMENT

    run(tmp_path, scenario)
