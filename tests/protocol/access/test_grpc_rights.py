"""Every method of gRPC, called by every kind of client."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from goqueue.access.api_keys import ApiKey, hash_of, new_key
from goqueue.access.rights import Operation, ResourceType
from goqueue.access.rules import Effect, Rule
from goqueue.protocols.grpc.rights import RIGHTS
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb, goqueue_pb2_grpc as services
from protocol.access.telling import told_alike
from support.grpc_node import IN_TURN
from support.guarded import BAD, OUTSIDERS, SECRET, TOPIC
from support.server import siblings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.guarded import GuardedServer, Things

LETTERS = {"producer": "p", "consumer": "c", "readonly": "r"}
REFUSED = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


def requests_of(things: Things, epochs_late: int = 7) -> dict[str, tuple[str, Any]]:
    """Who may call each method, and a request of it. An allowed call may fail for other reasons."""
    topic, group, name = things.topic, things.group, things.transactional_id
    own = pb.ProducerIdentity(
        producer_id=things.producer.producer_id, epoch=things.producer.epoch + epochs_late
    )
    offset = pb.PartitionOffset(topic=topic, partition=0, offset=0)
    publish = pb.PublishRequest(topic=topic, messages=[pb.NewMessage(value=b"x")])
    acknowledged: dict[str, Any] = {"receipt_handle": things.receipt, "group": group}
    return {
        "PublishService/Publish": ("p--", publish),
        "PublishService/InitProducer": ("p--", pb.InitProducerRequest()),
        "ConsumeService/Consume": (
            "-c-",
            pb.ConsumeRequest(topic=topic, partition=0, until_end=True),
        ),
        "AckService/Ack": ("-c-", pb.AckRequest(**acknowledged)),
        "AckService/Nack": ("-c-", pb.NackRequest(**acknowledged)),
        "AckService/Reject": ("-c-", pb.RejectRequest(**acknowledged, reason="bad")),
        "AckService/ExtendVisibility": (
            "-c-",
            pb.ExtendVisibilityRequest(**acknowledged, extend_ms=10),
        ),
        "AckService/BatchAck": (
            "-c-",
            pb.BatchAckRequest(
                receipt_handles=[things.receipt], group=group, verdict=pb.VERDICT_ACK
            ),
        ),
        "OffsetService/CommitOffsets": (
            "-c-",
            pb.CommitOffsetsRequest(group="nightly", offsets=[offset]),
        ),
        "OffsetService/FetchOffsets": ("-cr", pb.FetchOffsetsRequest(group=group)),
        "OffsetService/ResetOffsets": (
            "-c-",
            pb.ResetOffsetsRequest(group="nothing", topic=topic, dry_run=True),
        ),
        "TransactionService/InitProducer": (
            "p--",
            pb.InitTransactionalProducerRequest(transactional_id=f"{name}-other"),
        ),
        "TransactionService/Heartbeat": ("p--", pb.TransactionRequest(producer=own)),
        "TransactionService/BeginTransaction": ("p--", pb.TransactionRequest(producer=own)),
        "TransactionService/AddPartition": (
            "p--",
            pb.AddPartitionRequest(producer=own, topic=topic, partition=0),
        ),
        "TransactionService/Publish": (
            "p--",
            pb.TransactionalPublishRequest(
                producer=own, topic=topic, messages=[pb.NewMessage(value=b"x")]
            ),
        ),
        "TransactionService/SendOffsets": (
            "---",
            pb.SendOffsetsRequest(producer=own, group=group, offsets=[offset]),
        ),
        "TransactionService/CommitTransaction": ("p--", pb.TransactionRequest(producer=own)),
        "TransactionService/AbortTransaction": (
            "p--",
            pb.AbortTransactionRequest(transactional_id=name),
        ),
        "TransactionService/ListTransactions": ("pcr", pb.ListTransactionsRequest()),
        "TransactionService/DescribeTransaction": (
            "p--",
            pb.DescribeTransactionRequest(transactional_id=name),
        ),
        "AdminService/CreateTopic": (
            "---",
            pb.CreateTopicRequest(name=f"{topic}-made", partitions=1),
        ),
        "AdminService/ListTopics": ("pcr", pb.ListTopicsRequest()),
        "AdminService/DescribeTopic": ("pcr", pb.TopicRequest(name=topic)),
        "AdminService/ConfigureTopic": ("---", pb.ConfigureTopicRequest(name=topic)),
        "AdminService/GrowTopic": ("---", pb.GrowTopicRequest(name=topic, partitions=3)),
        "AdminService/DeleteTopic": ("---", pb.TopicRequest(name=f"{topic}-made")),
        "AdminService/ListGroups": ("pcr", pb.ListGroupsRequest()),
        "AdminService/DescribeGroup": ("-cr", pb.GroupRequest(name=group)),
        "AdminService/DeleteGroup": ("---", pb.GroupRequest(name="nothing")),
        "AdminService/DescribeMaintenance": ("---", pb.MaintenanceRequest()),
        "AdminService/ResumeMaintenance": ("---", pb.MaintenanceRequest()),
    }


STREAMS = {"PublishService/PublishStream", "ConsumeService/Subscribe"}
HEALTH = {"HealthService/Check", "HealthService/Watch"}


@pytest.fixture(scope="module")
def channel(server: GuardedServer) -> Iterator[grpc.Channel]:
    target = "ipv4:" + ",".join(f"127.0.0.1:{port}" for port in siblings(server.grpc_port))
    with grpc.insecure_channel(target, options=IN_TURN) as channel:
        yield channel


def call(channel: grpc.Channel, method: str, request: Any, metadata: Any = ()) -> Any:
    """The status of a call, and what it answers; of a refusal, what that says."""
    service, _, name = method.partition("/")
    stub = getattr(getattr(services, f"{service}Stub")(channel), name)
    try:
        answer = stub(request, metadata=metadata, timeout=60)
        if method == "ConsumeService/Consume":
            answer = list(answer)
    except grpc.RpcError as error:
        return error.code(), error.details()
    return grpc.StatusCode.OK, answer


def key(server: GuardedServer, who: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {server.token(who)}"),)


def test_every_method_has_its_request(server: GuardedServer) -> None:
    known = {method.rpartition(".")[2] for method in RIGHTS}
    assert set(requests_of(server.known)) | STREAMS | HEALTH == known


def test_every_method_answers_every_kind_of_client_as_the_table_says(
    server: GuardedServer, channel: grpc.Channel
) -> None:
    before = server.fingerprint()
    wrong: list[tuple[str, Any, Any]] = []
    for method, (letters, request) in requests_of(server.known).items():
        unauthenticated = [(), *(key(server, who) for who in BAD)]
        for metadata in unauthenticated:
            status, _ = call(channel, method, request, metadata)
            if status is not grpc.StatusCode.UNAUTHENTICATED:
                wrong.append((method, metadata, status))
        for who, letter in LETTERS.items():
            status, _ = call(channel, method, request, (("x-api-key", server.token(who)),))
            if letter in letters:
                is_wrong = status in REFUSED
            else:
                is_wrong = status is not grpc.StatusCode.PERMISSION_DENIED
            if is_wrong:
                wrong.append((method, who, status))
    assert not wrong
    after = server.fingerprint()
    kept = ("topics", "users", "keys", "rules", "schemas", "pipelines", "redrives")
    assert [after[name] for name in kept] == [before[name] for name in kept]
    for method, (_, request) in requests_of(server.known).items():
        status, _ = call(channel, method, request, key(server, "admin"))
        if status in (*REFUSED, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN):
            wrong.append((method, "admin", status))
    assert not wrong


@pytest.mark.parametrize("who", OUTSIDERS)
def test_outsiders_learn_and_change_nothing_of_a_tenant(
    server: GuardedServer, channel: grpc.Channel, who: str
) -> None:
    before = server.fingerprint()
    wrong = []
    about_hidden, about_absent = requests_of(server.hidden, 0), requests_of(server.absent, 0)
    lists = [each for each in about_absent if each.partition("/")[2].startswith("List")]
    for method in lists:
        assert SECRET not in str(call(channel, method, about_absent[method][1], key(server, who)))
    for method in about_hidden.keys() - set(lists):
        found = call(channel, method, about_hidden[method][1], key(server, who))
        absent = call(channel, method, about_absent[method][1], key(server, who))
        is_alike = told_alike(str(found), server.hidden) == told_alike(str(absent), server.absent)
        if not is_alike:
            wrong.append((method, found, absent))
        if (
            who == "stranger"
            and method not in lists
            and absent[0] is not grpc.StatusCode.PERMISSION_DENIED
        ):
            wrong.append((method, found, absent))
    assert not wrong
    assert server.fingerprint() == before


def test_health_is_told_to_everybody(server: GuardedServer, channel: grpc.Channel) -> None:
    status, _ = call(channel, "HealthService/Check", pb.HealthCheckRequest())
    assert status is grpc.StatusCode.OK
    status, _ = call(channel, "HealthService/Check", pb.HealthCheckRequest(), key(server, "wrong"))
    assert status is grpc.StatusCode.UNAUTHENTICATED


def test_a_stream_of_publishes_is_refused_request_by_request(
    server: GuardedServer, channel: grpc.Channel
) -> None:
    stub = services.PublishServiceStub(channel)
    requests = [pb.PublishRequest(topic=TOPIC, messages=[pb.NewMessage(value=b"x")])] * 2
    for who, name in (("consumer", "TopicAuthorizationFailedError"), ("producer", "")):
        answers = stub.PublishStream(iter(requests), metadata=key(server, who), timeout=60)
        assert [each.error.name for each in answers] == [name, name]
    with pytest.raises(grpc.RpcError) as refused:
        list(stub.PublishStream(iter(requests), timeout=60))
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


def subscribe(channel: grpc.Channel, join: pb.SubscribeJoin, metadata: Any) -> Any:
    """How a subscription ends whose client says nothing more."""
    stub = services.ConsumeServiceStub(channel)
    stream = stub.Subscribe(iter([pb.SubscribeRequest(join=join)]), metadata=metadata, timeout=60)
    try:
        return grpc.StatusCode.OK, list(stream)
    except grpc.RpcError as error:
        return error.code(), error.details()


@pytest.mark.parametrize("who", BAD)
def test_no_stream_begins_with_a_key_that_is_no_good(
    server: GuardedServer, channel: grpc.Channel, who: str
) -> None:
    join = pb.SubscribeJoin(group="watchers", topics=[TOPIC])
    status, _ = subscribe(channel, join, key(server, who))
    assert status is grpc.StatusCode.UNAUTHENTICATED
    request = pb.PublishRequest(topic=TOPIC, messages=[pb.NewMessage(value=b"x")])
    stub = services.PublishServiceStub(channel)
    with pytest.raises(grpc.RpcError) as refused:
        list(stub.PublishStream(iter([request]), metadata=key(server, who), timeout=60))
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("who", OUTSIDERS)
def test_streams_tell_outsiders_the_same_of_what_is_hidden_and_absent(
    server: GuardedServer, channel: grpc.Channel, who: str
) -> None:
    before = server.fingerprint()
    told = []
    for things in (server.hidden, server.absent):
        request = pb.PublishRequest(topic=things.topic, messages=[pb.NewMessage(value=b"x")])
        stub = services.PublishServiceStub(channel)
        answers = list(stub.PublishStream(iter([request]), metadata=key(server, who), timeout=60))
        assert answers[0].error.name
        join = pb.SubscribeJoin(group=things.group, topics=[things.topic])
        ended = subscribe(channel, join, key(server, who))
        assert who != "stranger" or ended[0] is grpc.StatusCode.PERMISSION_DENIED
        said = re.sub("member-[0-9a-f]+", "member", str((answers, ended)))
        told.append(told_alike(said, things))
        assert SECRET not in told[-1]
    assert told[0] == told[1]
    assert server.fingerprint() == before


def test_a_subscription_ends_when_its_key_expires(
    server: GuardedServer, channel: grpc.Channel
) -> None:
    key_id, token = new_key()
    until_ms = server.broker.clock.now_ms() + 3000
    made = ApiKey(hash_of(token), "gq_", "short", 0, ("consumer",), expires_ms=until_ms)
    server.change_key(key_id, stored=made)

    def requests() -> Iterator[pb.SubscribeRequest]:
        yield pb.SubscribeRequest(join=pb.SubscribeJoin(group="short", topics=[TOPIC]))
        time.sleep(30)

    metadata = (("authorization", f"Bearer {token}"),)
    stream = services.ConsumeServiceStub(channel).Subscribe(
        requests(), metadata=metadata, timeout=60
    )
    next(stream)  # it has joined
    with pytest.raises(grpc.RpcError) as ended:
        list(stream)
    assert ended.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert until_ms <= server.broker.clock.now_ms() < until_ms + 5000


def test_a_subscription_ends_when_its_right_is_taken_away(
    server: GuardedServer, channel: grpc.Channel
) -> None:
    stub = services.ConsumeServiceStub(channel)
    join = pb.SubscribeRequest(join=pb.SubscribeJoin(group="watchers", topics=[TOPIC]))

    def requests() -> Iterator[pb.SubscribeRequest]:
        yield join
        time.sleep(30)

    with pytest.raises(grpc.RpcError) as refused:
        list(stub.Subscribe(iter([join]), metadata=key(server, "producer"), timeout=60))
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    stream = stub.Subscribe(requests(), metadata=key(server, "consumer"), timeout=60)
    next(stream)  # it has joined
    denied = Rule("role:consumer", ResourceType.TOPIC, TOPIC, Operation.READ, Effect.DENY)
    server.change_rules(add=[denied])
    with pytest.raises(grpc.RpcError) as ended:
        list(stream)
    assert ended.value.code() is grpc.StatusCode.PERMISSION_DENIED
    server.change_rules(remove=[denied])
