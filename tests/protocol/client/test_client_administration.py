"""Topics, groups, offsets, transactions and the cluster through the client's administration."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from goqueue import AsyncClient, Client
from goqueue.client.administration.calls import LANE, LONG_LANE
from goqueue.client.errors import (
    BrokerError,
    BrokerUnavailableError,
    ClientClosedError,
    LoginError,
)
from goqueue.client.settings import ClientSettings
from goqueue.model.errors import (
    GroupNotFoundError,
    InvalidPartitionCountError,
    InvalidTopicConfigError,
    InvalidTopicNameError,
    NonEmptyGroupError,
    OffsetOutOfRangeError,
    TopicExistsError,
    UnknownPartitionError,
    UnknownPipelineError,
    UnknownTopicError,
    UnknownTransactionalIdError,
)
from goqueue.model.topic_partition import TopicPartition
from protocol.secure_clients import AT_ONCE
from support.certificates import Authority
from support.server import free_port, make_server, siblings, start_server

__all__ = ["start_server"]


# --- Topics ---------------------------------------------------------------------------------------


def test_topics_are_made_described_changed_and_deleted(client, name):
    topic = name("topic")
    made = client.topics.create(topic, partitions=2, settings={"retention.ms": "1000"})
    assert (made.name, len(made.partitions), made.is_internal) == (topic, 2, False)
    assert made.settings == {"retention.ms": "1000"}
    assert made in client.topics.list()
    changed = client.topics.configure(topic, {"cleanup.policy": "compact"}, unset=["retention.ms"])
    assert changed.settings == {"cleanup.policy": "compact"}
    assert [each.number for each in client.topics.grow(topic, 4).partitions] == [0, 1, 2, 3]
    assert client.topics.describe(topic).topic_id == made.topic_id
    with pytest.raises(TopicExistsError):
        client.topics.create(topic)
    client.topics.delete(topic)
    with pytest.raises(UnknownTopicError):
        client.topics.describe(topic)


def test_internal_topics_are_listed_on_request(client, group):
    client.offsets.commit(group, {})
    named = {each.name for each in client.topics.list()}
    every = {each.name for each in client.topics.list(include_internal=True)}
    assert named < every


def test_a_description_counts_what_was_published(client, api, topic):
    api.publish(topic, "one", "two", partition=1)
    first, second = client.topics.describe(topic).partitions
    assert (first.log_start, first.log_end) == (0, 0)
    assert (second.log_start, second.log_end) == (0, 2)
    assert second.size_bytes > 0


def test_the_settings_of_a_topic_are_shown_with_their_sources(client, topic):
    client.topics.configure(topic, {"retention.ms": "7"})
    found = {each.name: each for each in client.topics.settings(topic)}
    assert (found["retention.ms"].value, found["retention.ms"].source) == ("7", "topic")
    assert found["cleanup.policy"].source == "default"


def test_messages_are_purged_for_good(client, api, topic):
    api.publish(topic, "a", "b", "c", partition=0)
    api.publish(topic, "d", partition=1)
    assert client.topics.purge(topic, partition=0, before=2) == 2
    assert client.topics.describe(topic).partitions[0].log_start == 2
    assert client.topics.purge(topic) == 2
    assert [each.log_start for each in client.topics.describe(topic).partitions] == [3, 1]


def test_a_compaction_is_previewed_and_done(client, topic):
    client.topics.configure(topic, {"cleanup.policy": "compact"})
    preview = client.topics.compact(topic, partitions=[1], dry_run=True)
    assert [(each.partition, each.records_after) for each in preview] == [(1, None)]
    assert [each.partition for each in client.topics.compact(topic)] == [0, 1]


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda c: c.topics.describe("absent"), UnknownTopicError),
        (lambda c: c.topics.describe("../é?&#/"), InvalidTopicNameError),
        (lambda c: c.topics.delete("absent"), UnknownTopicError),
        (lambda c: c.topics.configure("absent", {"retention.ms": "1"}), UnknownTopicError),
        (lambda c: c.topics.grow("absent", 3), UnknownTopicError),
        (lambda c: c.topics.grow("absent", 0), InvalidPartitionCountError),
        (lambda c: c.topics.create("../u"), InvalidTopicNameError),
        (lambda c: c.topics.create(""), InvalidTopicNameError),
        (lambda c: c.topics.create("t", partitions=0), InvalidPartitionCountError),
        (lambda c: c.topics.create("t", settings={"no": "1"}), InvalidTopicConfigError),
        (lambda c: c.topics.create("t", partitions="two"), BrokerError),
        (lambda c: c.topics.create(7), BrokerError),
        (lambda c: c.topics.create(b"bytes"), TypeError),
        (lambda c: c.topics.create("t", settings={"a": {1}}), TypeError),
        (lambda c: c.topics.create("t", settings={"a": "x" * 5_000_000}), ValueError),
        (lambda c: c.topics.describe(b"bytes"), TypeError),
        (lambda c: c.topics.describe(None), TypeError),
        (lambda c: c.topics.describe(""), ValueError),
        (lambda c: c.topics.describe("x" * 40_000), ValueError),
        (lambda c: c.topics.configure("t", {"a": "1"}, unset=["a"]), ValueError),
        (lambda c: c.groups.describe("absent"), GroupNotFoundError),
        (lambda c: c.groups.delete("absent"), GroupNotFoundError),
        (lambda c: c.offsets.commit("g", {TopicPartition("absent", 0): 1}), UnknownTopicError),
        (lambda c: c.offsets.reset("g", "absent", "latest"), UnknownTopicError),
        (lambda c: c.offsets.reset("g", "absent", "sideways"), ValueError),
        (lambda c: c.offsets.fetch("g", [TopicPartition("absent", 0)]), UnknownTopicError),
        (lambda c: c.transactions.describe("absent"), UnknownTransactionalIdError),
        (lambda c: c.transactions.abort("absent"), UnknownTransactionalIdError),
        (lambda c: c.transactions.list("Sideways"), BrokerError),
        (lambda c: c.cluster.remove_pipeline("absent"), UnknownPipelineError),
    ],
)
def test_a_refusal_is_the_error_of_the_broker(client, ask, error):
    with pytest.raises(error) as caught:
        ask(client)
    assert str(caught.value)


# --- Groups and offsets ---------------------------------------------------------------------------


def test_groups_and_their_offsets_are_looked_at_moved_and_deleted(client, api, topic, group):
    api.publish(topic, *"abcdefghij", partition=0)
    api.publish(topic, *"abcdefg", partition=1)
    assert client.offsets.fetch(group) == []
    client.offsets.commit(group, {})
    client.offsets.commit(group, {TopicPartition(topic, 0): 4})
    (found,) = client.offsets.fetch(group)
    assert (found.topic, found.partition) == (topic, 0)
    assert (found.offset, found.log_end, found.lag) == (4, 10, 6)
    wanted = [TopicPartition(topic, 1), TopicPartition(topic, 0)]
    unread, read = client.offsets.fetch(group, wanted)
    assert (unread.partition, unread.offset, unread.log_end, unread.lag) == (1, None, 7, 7)
    assert read == found
    preview = client.offsets.reset(group, topic, "latest", partitions=[0], dry_run=True)
    assert [(each.before, each.after) for each in preview] == [(4, 10)]
    client.offsets.reset(group, topic, 7)
    assert [each.offset for each in client.offsets.fetch(group)] == [7, 7]
    client.offsets.reset(group, topic, datetime(2000, 1, 1, tzinfo=UTC))
    assert [each.offset for each in client.offsets.fetch(group)] == [0, 0]
    with pytest.raises(OffsetOutOfRangeError):
        client.offsets.reset(group, topic, 99)
    with pytest.raises(UnknownPartitionError):
        client.offsets.commit(group, {TopicPartition(topic, 9): 4})
    assert group in [each.name for each in client.groups.list()]
    client.groups.delete(group)
    with pytest.raises(GroupNotFoundError):
        client.groups.describe(group)


def test_offsets_of_very_many_partitions_are_fetched(client, name, group):
    topic = client.topics.create(name("wide"), partitions=250).name
    wanted = [TopicPartition(topic, number) for number in reversed(range(250))]
    found = client.offsets.fetch(group, wanted)
    assert [each.partition for each in found] == [each.partition for each in wanted]


def test_a_group_shows_its_members(client, api, topic, group):
    body = {"topics": [topic], "client_id": "me", "assignment": "log"}
    member = api.post(f"/groups/{group}/join", body)["member_id"]
    described = client.groups.describe(group)
    (found,) = described.members
    assert (found.member_id, found.client_id, found.client_host) == (member, "me", "127.0.0.1")
    assert found.partitions == (TopicPartition(topic, 0), TopicPartition(topic, 1))
    assert (described.name, described.protocol, described.member_count) == (group, "consumer", 1)
    with pytest.raises(NonEmptyGroupError):
        client.groups.delete(group)
    assert client.groups.rebalances(group).joins == 1
    assert client.groups.rebalances().joins >= 1


# --- Transactions ---------------------------------------------------------------------------------


def test_a_transaction_that_hangs_is_found_and_ended(client, api, topic, name):
    transactional_id = name("tx/ä?")
    told = api.post("/producers/init", {"transactional_id": transactional_id})
    who = {"producer_id": told["producer_id"], "epoch": told["epoch"]}
    api.post("/transactions/publish", who | {"topic": topic, "partition": 1, "value": "v"})
    (found,) = [
        each
        for each in client.transactions.list("Ongoing", "PrepareCommit", "Ongoing")
        if each.transactional_id == transactional_id
    ]
    assert found == client.transactions.describe(transactional_id)
    assert found.partitions == (TopicPartition(topic, 1),)
    assert found.started_at_ms
    assert client.transactions.stats().active >= 1
    assert client.transactions.abort(transactional_id).state == "CompleteAbort"
    ended = client.transactions.describe(transactional_id)
    assert (ended.state, ended.started_at_ms) == ("CompleteAbort", None)
    assert ended in client.transactions.list()


# --- The cluster ----------------------------------------------------------------------------------


def test_the_cluster_shows_its_brokers_and_their_health(client, broker, topic):
    nodes = client.cluster.nodes()
    ports = siblings(broker.kafka_port)
    assert sorted((each.host, each.port) for each in nodes) == [
        ("127.0.0.1", port) for port in sorted(ports)
    ]
    assert sum(each.is_controller for each in nodes) == 1
    health = client.health()
    assert (health.is_ok, health.storage, health.clock) == (True, "ok", "ok")
    readiness = client.cluster.readiness()
    assert readiness.is_ready
    assert readiness.checks["metadata"] == "ok"
    stats = client.cluster.stats()
    assert {stats.node_id, readiness.totals.node_id} <= {each.node_id for each in nodes}
    assert stats.topics[topic].partition_count == 2
    assert client.cluster.version().version
    assert "# TYPE " in client.cluster.metrics()
    assert client.cluster.maintenance().status == "running"
    assert client.cluster.resume_maintenance() is False


def test_pipelines_are_listed_and_removed(client, api, name):
    pipeline = name("pipeline")
    api.ask("PUT", f"/pipelines/{pipeline}", {"state": "running"})
    assert pipeline in [each.name for each in client.cluster.pipelines()]
    client.cluster.remove_pipeline(pipeline)
    assert pipeline not in [each.name for each in client.cluster.pipelines()]


# --- Connections ----------------------------------------------------------------------------------


def test_nobody_at_the_addresses_is_said_with_the_addresses_and_the_time():
    ports = free_port(), free_port()
    addresses = [f"127.0.0.1:{port}" for port in ports]
    with Client(addresses, ClientSettings(call_timeout_ms=300)) as client:
        for ask in (client.topics.list, lambda: client.topics.create("t"), client.health):
            with pytest.raises(BrokerUnavailableError) as caught:
                ask()
            assert f"no answer from {', '.join(addresses)} for 0." in str(caught.value)


def test_a_closed_client_says_so(broker):
    async def main():
        async with AsyncClient(broker.kafka_address) as client:
            await client.topics.list()
        for ask in (client.topics.list, client.health, lambda: client.topics.create("t")):
            with pytest.raises(ClientClosedError):
                await ask()

    asyncio.run(main())


def test_calls_go_on_after_a_restart(start_server):
    server = start_server()
    with Client(server.kafka_address, ClientSettings(call_timeout_ms=60_000)) as client:
        client.topics.create("t", partitions=1)
        server.restart()
        assert [each.name for each in client.topics.list()] == ["t"]
        server.restart()
        client.topics.create("u", partitions=1)
        assert [each.name for each in client.topics.list()] == ["t", "u"]


def test_a_first_call_does_not_import_grpc(broker):
    code = (
        "import sys; from goqueue import Client\n"
        f"with Client({broker.kafka_address!r}) as client: client.topics.list()\n"
        "print(sorted({'grpc', 'google'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, authority):
    """A server with TLS that wants a login."""
    cert_file, key_file = authority.issue("server")
    flags = ("--tls-enabled", "--tls-cert-file", str(cert_file), "--tls-key-file", str(key_file))
    users = {"GOQUEUE_SASL_ENABLED": "true", "GOQUEUE_SASL_USERS": "alice:secret"}
    folder = tmp_path_factory.mktemp("broker") / "data"
    server = make_server(folder, *flags, environment=AT_ONCE | users)
    server.start()
    yield server
    server.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_server_with_tls_and_a_login_is_administered(guarded, authority, name, mechanism):
    settings = ClientSettings(
        ca_file=authority.ca_file,
        sasl_mechanism=mechanism,
        username="alice",
        password="secret",
    )
    with Client(guarded.kafka_address, settings) as client:
        topic = client.topics.create(name("topic")).name
        assert topic in [each.name for each in client.topics.list()]
        assert client.health().is_ok


def test_a_wrong_password_is_a_login_error(guarded, authority):
    settings = ClientSettings(
        ca_file=authority.ca_file, sasl_mechanism="PLAIN", username="alice", password="guess"
    )
    with Client(guarded.kafka_address, settings) as client, pytest.raises(LoginError):
        client.topics.list()


def test_a_cancelled_call_leaves_the_client_usable(broker, name):
    async def main():
        async with AsyncClient(broker.kafka_address) as client:
            await client.topics.list()
            for turns in range(5):
                task = asyncio.create_task(client.topics.create(name("cancelled"), partitions=1))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert (await client.health()).is_ok

    asyncio.run(main())


def test_many_calls_at_once_are_answered_each_with_its_own(broker, client, name):
    made = {name("many"): number for number in range(1, 20)}
    for topic, count in made.items():
        client.topics.create(topic, partitions=count)

    async def main():
        async with AsyncClient(broker.kafka_address) as other:
            described = await asyncio.gather(*(other.topics.describe(each) for each in made))
            assert {each.name: len(each.partitions) for each in described} == made

    asyncio.run(main())


def test_a_client_is_shared_between_threads(client, topic):
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: client.topics.describe(topic).name, range(80)))
    assert found == [topic] * 80


def test_a_compaction_under_way_holds_up_no_other_call(broker, topic):
    async def main():
        async with AsyncClient(broker.kafka_address) as client:
            await client.topics.configure(topic, {"cleanup.policy": "compact"})
            await client.topics.compact(topic, dry_run=True)
            lanes = {lane for _, lane in client.link._pool._open}
            assert {LANE, LONG_LANE} <= lanes

    asyncio.run(main())
