"""The tables of rights, asked of three nodes in turn, which pass on most requests.

`make test-cluster` asks more: outsiders over HTTP and Kafka, each with nodes of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from protocol.access.test_grpc_rights import (
    channel,
    test_every_method_answers_every_kind_of_client_as_the_table_says,
    test_outsiders_learn_and_change_nothing_of_a_tenant,
)
from protocol.access.test_http_rights import (
    test_every_route_answers_every_kind_of_client_as_the_table_says,
)
from protocol.access.test_kafka_rights import (
    test_every_api_answers_every_kind_of_client_as_the_table_says,
)
from support.etcd import need_etcd
from support.guarded import guarded_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.guarded import GuardedServer

__all__ = [
    "channel",
    "test_every_api_answers_every_kind_of_client_as_the_table_says",
    "test_every_method_answers_every_kind_of_client_as_the_table_says",
    "test_every_route_answers_every_kind_of_client_as_the_table_says",
    "test_outsiders_learn_and_change_nothing_of_a_tenant",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedServer]:
    need_etcd()
    with guarded_server(
        tmp_path_factory.mktemp("guarded"), "--tracing-sampling=1", hides=True, is_cluster=True
    ) as server:
        yield server
