"""What a tenant's clients have taken is owed by all of them, on whichever connection they come."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.wire.kafka.api_keys import ApiKey
from protocol.raw_kafka import RawKafka, make_batch, produce_fields
from protocol.tenants.conftest import PASSWORD
from protocol.tenants.test_tenant_kafka_clients import admin_of, create
from protocol.tenants.test_tenant_rates import make
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.secure_clients import Access
    from protocol.tenants.conftest import Api
    from support.server import ServerProcess

WINDOW_S = 10.0
THREADS = 8
RATE = 1_000_000


def made(access: Access) -> int:
    """Make the topic `orders`; the port of the node that leads its partition."""
    create(access, "orders", 1)

    def leader() -> int | None:
        known = admin_of(access).list_topics("orders", timeout=10)
        node = known.brokers.get(known.topics["orders"].partitions[0].leader)
        return None if node is None else int(node.port)

    port: int = eventually(leader, "the partition has a leader")
    return port


def logged_in(port: int, tenant: str) -> RawKafka:
    """A connection that has said who it is, and has asked for nothing else."""
    raw = RawKafka(port)
    assert raw.ask_alone(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code == 0
    token = f"\0{tenant}\0{PASSWORD}".encode()
    assert raw.ask_alone(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token).error_code == 0
    return raw


def one_after_the_other(connect: Callable[[], RawKafka], fields: dict[str, Any]) -> None:
    """Publish, and wait as long as it takes."""
    with connect() as raw:
        raw.ask_alone(ApiKey.PRODUCE, 9, **fields)


def and_away(connect: Callable[[], RawKafka], fields: dict[str, Any]) -> None:
    """Publish on a connection that ends at once."""
    with connect() as raw:
        raw.send_alone(ApiKey.PRODUCE, 9, **fields)
        raw.socket.settimeout(0.2)
        with suppress(TimeoutError):
            raw.answer_bytes()


@pytest.mark.parametrize("way", [one_after_the_other, and_away])
def test_many_connections_and_reconnects_do_not_exceed_a_rate(
    root: Api, server: ServerProcess, name: Callable[[str], str], way: Any
) -> None:
    tenant = name("debtor")
    quotas = {"publish_bytes_per_s": RATE, "max_message_bytes": 0, "max_connections": 0}
    port = made(make(root, server, tenant, **quotas))
    fields = produce_fields("orders", make_batch(b"x" * 100_000))
    is_over = threading.Event()
    failures: list[BaseException] = []

    def publish() -> None:
        try:
            while not is_over.is_set():
                way(lambda: logged_in(port, tenant), fields)
        except BaseException as error:
            failures.append(error)
            raise

    def published() -> int:
        usage = root.ok("GET", f"/admin/tenants/{tenant}/usage")
        return int(usage["published_bytes"])

    with ExitStack() as stack:
        for _ in range(THREADS):
            thread = threading.Thread(target=publish)
            thread.start()
            stack.callback(thread.join)
        stack.callback(is_over.set)
        while published() < 2 * RATE:  # what was saved up is used
            time.sleep(0.05)
        began_s, before = time.monotonic(), published()
        time.sleep(WINDOW_S * len(server.data_dirs))  # other nodes tell of theirs once a second
        found = (published() - before) / (time.monotonic() - began_s)
    assert not failures
    assert 0.5 * RATE <= found <= 1.1 * RATE


def test_a_client_that_only_logs_in_and_publishes_takes_from_requests_and_connections(
    root: Api, server: ServerProcess, name: Callable[[str], str]
) -> None:
    tenant = name("quiet")
    port = made(make(root, server, tenant, requests_per_s=5))
    fields = produce_fields("orders", make_batch(b"x"))

    def connections() -> int:
        return int(root.ok("GET", f"/admin/tenants/{tenant}/usage")["connections"])

    with ExitStack() as stack:
        before, raws = connections(), []
        for _ in range(3):
            raws.append(logged_in(port, tenant))
            stack.callback(raws[-1].close)
        # Of other nodes of a cluster they are heard within a second.
        eventually(lambda: connections() == before + 3, "all of them count")
        began_s = time.monotonic()
        for _ in range(7):
            for raw in raws:
                raw.ask_alone(ApiKey.PRODUCE, 9, **fields)
        assert time.monotonic() - began_s > 2.0  # of 21 requests the first 5 are a burst
        root.ok("PUT", f"/admin/tenants/{tenant}/quotas", {"max_connections": 1})
        with logged_in(port, tenant) as late:
            assert late.is_closed_by_server()
