"""Internal topics are a list of names, the same for every protocol; other `__` names are users'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest
from confluent_kafka import KafkaError, KafkaException, admin

from goqueue.model.internal_topics import INTERNAL_TOPICS
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb, goqueue_pb2_grpc as services
from protocol.kafka_clients import CONFLUENT, WAIT_S, Message
from support.http_api import HttpApi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from concurrent.futures import Future

    from support.server import ServerProcess


class _Kafka:
    def __init__(self, server: ServerProcess) -> None:
        self._client = admin.AdminClient({"bootstrap.servers": server.kafka_address})

    def close(self) -> None:
        """Nothing to do: the client closes what it opened."""

    def _do(self, futures: Mapping[Any, Future[Any]]) -> str | None:
        (future,) = futures.values()
        try:
            future.result(WAIT_S)
        except KafkaException as error:
            return "refused" if error.args[0].code() == KafkaError.TOPIC_EXCEPTION else str(error)
        return None

    def create(self, name: str) -> str | None:
        return self._do(self._client.create_topics([admin.NewTopic(name, 1, 1)]))

    def configure(self, name: str) -> str | None:
        entry = admin.ConfigEntry(
            "retention.ms", "1", incremental_operation=admin.AlterConfigOpType.SET
        )
        resource = admin.ConfigResource("topic", name, incremental_configs=[entry])
        return self._do(self._client.incremental_alter_configs([resource]))

    def delete(self, name: str) -> str | None:
        return self._do(self._client.delete_topics([name]))


class _Http:
    def __init__(self, server: ServerProcess) -> None:
        self._api = HttpApi(server.http_port)

    def close(self) -> None:
        self._api.close()

    def _do(self, method: str, path: str, body: object = None) -> str | None:
        answer = self._api.ask(method, path, body)
        if answer.status in {200, 201}:
            return None
        assert (answer.status, answer.code) == (403, "internal_topic")
        return "refused"

    def create(self, name: str) -> str | None:
        return self._do("POST", "/topics", {"name": name, "num_partitions": 1})

    def configure(self, name: str) -> str | None:
        wish = {"settings": {"retention.ms": 1}}
        whole = self._do("PUT", f"/topics/{name}", wish)
        assert self._do("PATCH", f"/topics/{name}", wish) == whole
        return whole

    def delete(self, name: str) -> str | None:
        return self._do("DELETE", f"/topics/{name}")


class _Grpc:
    def __init__(self, server: ServerProcess) -> None:
        self._channel = grpc.insecure_channel(server.grpc_address)
        self._stub = services.AdminServiceStub(self._channel)

    def close(self) -> None:
        self._channel.close()

    def _do(self, call: str, request: object) -> str | None:
        try:
            getattr(self._stub, call)(request, timeout=WAIT_S)
        except grpc.RpcError as error:
            code: grpc.StatusCode = error.code()
            return "refused" if code is grpc.StatusCode.PERMISSION_DENIED else str(error)
        return None

    def create(self, name: str) -> str | None:
        return self._do("CreateTopic", pb.CreateTopicRequest(name=name, partitions=1))

    def configure(self, name: str) -> str | None:
        return self._do(
            "ConfigureTopic", pb.ConfigureTopicRequest(name=name, set={"retention.ms": "1"})
        )

    def delete(self, name: str) -> str | None:
        return self._do("DeleteTopic", pb.TopicRequest(name=name))


@pytest.fixture(params=[_Kafka, _Http, _Grpc])
def client(
    request: pytest.FixtureRequest, broker: ServerProcess
) -> Iterator[_Kafka | _Http | _Grpc]:
    made = request.param(broker)
    yield made
    made.close()


@pytest.fixture
def api(broker: ServerProcess) -> Iterator[HttpApi]:
    """For a look at what the client under test has done."""
    made = HttpApi(broker.http_port)
    yield made
    made.close()


def test_nobody_creates_an_internal_topic(client: _Kafka | _Http | _Grpc) -> None:
    assert {client.create(name) for name in INTERNAL_TOPICS} == {"refused"}


@pytest.mark.parametrize("topic", ["__delay_state", "__delayed", "__consumer_offsets"])
def test_nobody_changes_or_deletes_an_internal_topic(
    client: _Kafka | _Http | _Grpc, api: HttpApi, topic: str
) -> None:
    before = api.get(f"/topics/{topic}")["settings"]
    assert client.configure(topic) == client.delete(topic) == "refused"
    assert api.get(f"/topics/{topic}")["settings"] == before


def test_a_topic_of_a_user_may_begin_with_two_underscores(
    client: _Kafka | _Http | _Grpc,
    broker: ServerProcess,
    api: HttpApi,
    name: Callable[[str], str],
) -> None:
    topic = "__" + name("debezium-heartbeat")
    assert client.create(topic) is None
    CONFLUENT.produce(broker.kafka_address, topic, [Message(b"beat")])
    assert api.get(f"/topics/{topic}")["internal"] is False
    assert topic in api.get("/topics")["topics"]
    assert client.configure(topic) is None
    assert client.delete(topic) is None
    assert topic not in api.get("/topics?internal=true")["topics"]
