from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goqueue import Client
from support.http_api import HttpApi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.server import ServerProcess


@pytest.fixture
def client(broker: ServerProcess) -> Iterator[Client]:
    """The administration of the client, connected to the Kafka listener."""
    with Client(broker.kafka_address) as made:
        yield made


@pytest.fixture
def api(broker: ServerProcess) -> Iterator[HttpApi]:
    """Publishes and polls, which is not what is tested here."""
    client = HttpApi(broker.http_port)
    yield client
    client.close()


@pytest.fixture
def topic(client: Client, name: Callable[[str], str]) -> str:
    """A topic of two partitions that no other test uses."""
    return client.topics.create(name("topic"), partitions=2).name


@pytest.fixture
def group(name: Callable[[str], str]) -> str:
    return name("group")
