from __future__ import annotations

import logging
import os
import shutil
import warnings
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from protocol.raw_kafka import RawKafka
from support.cluster_broker import own_broker
from support.one_node import pytest_collection_modifyitems
from support.server import ServerProcess, make_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["pytest_collection_modifyitems"]

with warnings.catch_warnings():
    # kafka-python reads its schemas with a deprecated function, once, when it is imported.
    warnings.simplefilter("ignore", DeprecationWarning)
    from protocol.kafka_clients import KCAT, Client

_numbers = count(1)

# Clients that are nobody's business but their own: their complaints about a broker that a test has
# killed would drown everything else.
for _name in ("kafka", "aiokafka", "librdkafka"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all tests of a module, in a process of its own."""
    server = make_server(tmp_path_factory.mktemp("broker") / "data")
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="session")
def goqueue_broker(
    goqueue_settings: Mapping[str, object], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """The broker of the plugin that users have, or a cluster in its place."""
    with own_broker(tmp_path_factory.mktemp("broker"), goqueue_settings) as broker:
        yield broker


@pytest.fixture
def raw(broker: ServerProcess) -> Iterator[RawKafka]:
    """A connection that says exactly what the test says."""
    with RawKafka(broker.kafka_port) as client:
        yield client


@pytest.fixture(scope="module")
def name() -> Callable[[str], str]:
    """Makes names that no other test uses."""
    return lambda stem: f"{stem}-{next(_numbers)}"


@pytest.fixture(scope="session")
def kcat() -> str:
    """The command; a machine without it can run the other tests, CI cannot do without."""
    found = shutil.which("kcat")
    if found is None:
        reason = "kcat is not installed (Debian: apt-get install kcat)"
        if os.environ.get("CI", "").lower() in {"1", "true"}:
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Client:
    """A client as `parametrize(..., indirect=True)` gives it, if it can run here."""
    if request.param is KCAT:
        request.getfixturevalue("kcat")
    chosen: Client = request.param
    return chosen
