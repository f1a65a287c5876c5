"""The pytest plugin: a broker or a cluster for the whole run, a topic for each test.

pytest imports this at every start of every suite that has GoQueue installed, so it imports nothing
that only a suite with such tests needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from goqueue.testing import Broker, Cluster


@pytest.fixture(scope="session")
def goqueue_settings() -> Mapping[str, object]:
    """Settings of the broker by their full names. Override it in a conftest.py to change some."""
    return {}


@pytest.fixture(scope="session")
def goqueue_broker(goqueue_settings: Mapping[str, object]) -> Iterator[Broker]:
    """A real broker for all tests of the run, each of which uses topics of its own."""
    from goqueue.testing import Broker  # noqa: PLC0415 - see above

    with Broker(settings=goqueue_settings) as broker:
        yield broker


@pytest.fixture
def goqueue_topic(goqueue_broker: Broker, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of an empty topic with one partition, named after the test and gone after it."""
    name = goqueue_broker.create_topic(goqueue_broker.unique_name(request.node.name))
    yield name
    if name in goqueue_broker.topics():
        goqueue_broker.delete_topic(name)


@pytest.fixture(scope="session")
def goqueue_cluster(goqueue_settings: Mapping[str, object]) -> Iterator[Cluster]:
    """Three real nodes for all tests of the run; whoever stops or kills one starts it again."""
    from goqueue.testing import Cluster  # noqa: PLC0415 - see above

    with Cluster(settings=goqueue_settings) as cluster:
        yield cluster
