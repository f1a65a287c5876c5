"""A whole node for tests: the same parts as in a server process, set for speed.

Everything here runs on the node's own event loop; `brokers` has what tests call.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.topic_partition import TopicPartition
from goqueue.testing.messages import Message, as_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.server.config import Config
    from goqueue.server.node import Node

FOR_TESTS: Final[Mapping[str, object]] = {
    "groups.initial_rebalance_delay": 0,  # a group of one need not wait for a second member
    "groups.offsets_partitions": 4,
    "storage.disk_limit_percent": 100,  # a laptop's full disk is no business of a test's
    "storage.retention_check": "1d",  # or messages that a test has dated back go after a minute
    "broker.stop_timeout": "1s",
}
"""What differs from a server's defaults. A test's own settings go over it."""

_READ_LIMIT: Final = 1000
_HOST: Final = "127.0.0.1"
_PORT_SETTINGS: Final = ("listeners.kafka", "listeners.http", "listeners.grpc")


class EmbeddedNode:
    """A node, the folder under it, and the ports that it keeps across restarts."""

    def __init__(self, data_dir: Path | str | None, settings: Mapping[str, object]) -> None:
        self._given_dir = None if data_dir is None else Path(data_dir)
        self._settings = settings
        self._made_dir: tempfile.TemporaryDirectory[str] | None = None
        self._ports: dict[str, object] = dict.fromkeys(_PORT_SETTINGS, f"{_HOST}:0")
        self._node: Node | None = None

    @property
    def node(self) -> Node:
        """The node.

        Raises:
            RuntimeError: it is not running.
        """
        if self._node is None:
            raise RuntimeError("the broker is not running: use it in a `with`, or call start()")
        return self._node

    @property
    def is_running(self) -> bool:
        """Between a start and a stop."""
        return self._node is not None

    @property
    def data_dir(self) -> Path:
        """Where everything is stored; made when it is first asked for."""
        if self._given_dir is not None:
            return self._given_dir
        if self._made_dir is None:
            self._made_dir = tempfile.TemporaryDirectory(
                prefix="goqueue-", ignore_cleanup_errors=True
            )
        return Path(self._made_dir.name)

    async def start(self) -> None:
        """Start the node; a second start uses the ports of the first.

        Raises:
            GoQueueError: as a server would say it.
        """
        from goqueue.server.node import Node  # noqa: PLC0415 - a suite that needs none pays nothing

        node = Node(self._config())
        await node.start()
        self._node = node
        self._ports = {
            "listeners.kafka": f"{node.kafka.settings.host}:{node.kafka.port}",
            "listeners.http": f"{node.http.host}:{node.http.port}",
            "listeners.grpc": f"{node.grpc.settings.host}:{node.grpc.port}",
        }

    async def stop(self) -> None:
        """Stop the node and keep its data."""
        if self._node is not None:
            await self._node.stop()
            self._node = None

    def remove_data(self) -> None:
        """Remove the folder, if it was made here."""
        if self._made_dir is not None:
            self._made_dir.cleanup()
            self._made_dir = None

    def _config(self) -> Config:
        from goqueue.server.config_load import load_config  # noqa: PLC0415 - as above

        settings = {"broker.data_dir": self.data_dir, **FOR_TESTS, **self._ports, **self._settings}
        return load_config(*arguments_of(settings))

    # --- What tests do without a client ----------------------------------------------------------

    async def create_topic(
        self, name: str, partitions: int | None, settings: Mapping[str, object]
    ) -> str:
        """Make a topic; raises like the broker."""
        overrides = {key: str(value) for key, value in settings.items()}
        await self.node.broker.create_topic(name, partitions, overrides)
        return name

    async def delete_topic(self, name: str) -> None:
        """Remove a topic; raises like the broker."""
        await self.node.broker.delete_topic(name)

    async def topics(self) -> list[str]:
        """Names, without the broker's own."""
        catalogue = self.node.broker.topics.catalogue
        return sorted(name for name, topic in catalogue.by_name.items() if not topic.is_internal)

    async def publish(self, topic: str, values: dict[str, Any]) -> Message:
        """Store one message; its partition and offset are in what comes back."""
        from goqueue.publishing.new_messages import NewMessage  # noqa: PLC0415 - as above

        new = NewMessage(**values)
        (result,) = await self.node.broker.writer.publish(topic, [new])
        if result.error is not None:
            raise result.error
        assert result.partition is not None
        assert result.offset is not None
        assert result.timestamp_ms is not None
        return Message(
            topic,
            result.partition,
            result.offset,
            result.timestamp_ms,
            new.key,
            new.value,
            dict(new.headers),
        )

    async def messages(self, topic: str) -> list[Message]:
        """Everything that can be read now, partition by partition."""
        found: list[Message] = []
        for number in range(self.node.broker.topics.catalogue.topic(topic).partition_count):
            found.extend(await self._messages_of(topic, number))
        return found

    async def _messages_of(self, topic: str, number: int) -> list[Message]:
        place = TopicPartition(topic, number)
        found: list[Message] = []
        offset = self.node.broker.partitions.partition(place).log_start
        while True:
            read = await self.node.broker.reader.read(place, offset, limit=_READ_LIMIT)
            found.extend(
                Message(
                    topic,
                    number,
                    record.offset,
                    record.timestamp_ms,
                    record.key,
                    record.value,
                    dict(record.headers),
                )
                for _, _, record in read.messages
            )
            if read.next_offset in {offset, read.high_watermark}:
                return found
            offset = read.next_offset


def new_message(
    value: str | bytes | None,
    key: str | bytes | None,
    headers: Mapping[str, str | bytes | None] | None,
    partition: int | None,
) -> dict[str, Any]:
    """The fields of a message to publish, in bytes."""
    return {
        "value": as_bytes(value),
        "key": as_bytes(key),
        "headers": tuple((name, as_bytes(each)) for name, each in (headers or {}).items()),
        "partition": partition,
    }


def arguments_of(settings: Mapping[str, object]) -> tuple[list[str], dict[str, str]]:
    """Settings by their full names, as a server takes them: flags, and secrets as variables."""
    from goqueue.server.config import TABLE  # noqa: PLC0415 - as above
    from goqueue.server.config_table import ConfigError, Problem, nearest  # noqa: PLC0415 - as above

    rows = {row.full_name: row for row in TABLE}
    if unknown := [name for name in settings if name not in rows]:
        raise ConfigError(
            Problem(name, "settings", "an unknown name", nearest(name, rows)) for name in unknown
        )
    given = [(rows[name], _text(value)) for name, value in settings.items()]
    flags = [f"{row.flag}={text}" for row, text in given if not row.secret]
    return flags, {row.environment: text for row, text in given if row.secret}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)
