"""Connections of several tenants that are busy at once: each gets its answers, in its order."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

from goqueue.wire.kafka.api_keys import ApiKey
from protocol.raw_kafka import make_batch, produce_fields
from protocol.tenants.test_tenant_debts import logged_in, made
from protocol.tenants.test_tenant_rates import make

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.tenants.conftest import Api
    from support.server import ServerProcess

CONNECTIONS = 10
ROUNDS = 10
IN_FLIGHT = 150
"""More than one connection is served in a turn, and more than a share of it holds."""


def test_every_pipelined_request_is_answered_in_order(
    root: Api, server: ServerProcess, name: Callable[[str], str]
) -> None:
    fields = produce_fields("orders", make_batch(b"x"))
    tenants = [name("red"), name("blue")]
    ports = {tenant: made(make(root, server, tenant)) for tenant in tenants}
    found: dict[tuple[str, int], list[int]] = {}

    def publish(tenant: str, number: int) -> None:
        offsets = found[tenant, number] = []
        with logged_in(ports[tenant], tenant) as raw:
            for _ in range(ROUNDS):
                for _ in range(IN_FLIGHT):
                    raw.send_alone(ApiKey.PRODUCE, 9, **fields)
                for _ in range(IN_FLIGHT):
                    _, data = raw.answer_bytes()
                    offsets.append(int.from_bytes(data[16:24], "big"))

    with ExitStack() as stack:
        for tenant in tenants:
            for number in range(CONNECTIONS):
                thread = threading.Thread(target=publish, args=(tenant, number))
                thread.start()
                stack.callback(thread.join)
    for tenant in tenants:
        each = [found[tenant, number] for number in range(CONNECTIONS)]
        assert all(offsets == sorted(offsets) for offsets in each)
        every = sorted(offset for offsets in each for offset in offsets)
        assert every == list(range(CONNECTIONS * ROUNDS * IN_FLIGHT))
