"""A cluster in place of the broker that `goqueue.testing` runs inside a test suite."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from goqueue import Client, ClientSettings
from goqueue.model.delivery import PRIORITY_HEADER
from goqueue.testing import Broker
from goqueue.testing.embedded import FOR_TESTS, arguments_of, new_message
from goqueue.testing.messages import Message, unique_name
from support.cluster_server import ClusterServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


class ClusterBroker(ClusterServer):
    """Has what `goqueue.testing.Broker` has, and asks the nodes in turn."""

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        flags, secrets = arguments_of({**FOR_TESTS, **settings})
        super().__init__(folder, *flags, environment=secrets)
        self._client: Client | None = None

    @property
    def every_kafka_address(self) -> str:
        """All nodes, as `bootstrap.servers` lists them."""
        return ",".join(f"127.0.0.1:{each.ports.kafka}" for each in self.nodes)

    @property
    def client(self) -> Client:
        """Of all nodes."""
        if self._client is None:
            nodes = self.every_kafka_address.split(",")
            self._client = Client(nodes, ClientSettings(call_timeout_ms=90_000))
        return self._client

    def close(self) -> None:
        """End what runs."""
        if self._client is not None:
            self._client.close()
        super().close()

    @staticmethod
    def unique_name(stem: str = "test") -> str:
        return unique_name(stem)

    def create_topic(
        self,
        name: str | None = None,
        partitions: int | None = 1,
        settings: Mapping[str, object] | None = None,
    ) -> str:
        wanted = name or unique_name("test")
        own = {key: str(value) for key, value in (settings or {}).items()}
        self.client.topics.create(wanted, partitions=partitions, settings=own)
        return wanted

    def delete_topic(self, name: str) -> None:
        self.client.topics.delete(name)

    def topics(self) -> list[str]:
        return sorted(each.name for each in self.client.topics.list())

    def publish(
        self,
        topic: str,
        value: str | bytes | None,
        *,
        key: str | bytes | None = None,
        headers: Mapping[str, str | bytes | None] | None = None,
        partition: int | None = None,
    ) -> Message:
        fields = new_message(value, key, headers, partition)
        sent: Any = {**fields, "headers": dict(fields["headers"])}
        if PRIORITY_HEADER in sent["headers"]:  # which counts where a client says it by its name
            sent["priority"] = sent["headers"].pop(PRIORITY_HEADER).decode()
        stored = self.client.publish(topic, **sent).result()
        return Message(
            topic,
            stored.partition,
            stored.offset,
            stored.timestamp_ms,
            fields["key"],
            fields["value"],
            dict(fields["headers"]),
        )

    def messages(self, topic: str) -> list[Message]:
        return [
            Message(
                topic,
                each.partition,
                each.offset,
                each.timestamp_ms,
                each.key,
                each.value,
                dict(each.headers),
            )
            for number in range(len(self.client.topics.describe(topic).partitions))
            for each in self.client.consume(topic, partition=number, until_end=True)
        ]


class SparkCluster(ClusterBroker):
    """The same for programs that are given all nodes, as Spark's drivers and tasks are."""

    @property
    def kafka_address(self) -> str:
        return self.every_kafka_address


@contextmanager
def own_broker(
    folder: Path,
    settings: Mapping[str, object] | None = None,
    kind: type[ClusterBroker] = ClusterBroker,
) -> Iterator[Any]:
    """A broker for one test, or a cluster in its place."""
    if not os.environ.get("GOQUEUE_TEST_CLUSTER"):
        with Broker(settings=settings) as broker:
            yield broker
        return
    cluster = kind(folder / "broker", settings or {})
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
