"""Bits that turn over in the files of a real server: made good where possible, and reported."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from support.bad_bits import flip, stored_batches
from support.http_api import HttpApi
from support.server import start_server
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.server import ServerProcess

__all__ = ["start_server"]

WAIT_S = 120.0


def poll(api: HttpApi, limit: int) -> list[dict[str, str]]:
    """What a new member of the group gets."""
    member_id = api.post("/groups/g/join", {"topics": ["t"], "assignment": "shared"})["member_id"]
    found: list[dict[str, str]] = api.get(
        f"/groups/g/poll?limit={limit}&timeout=1s&member_id={member_id}"
    )["messages"]
    return found


def damage_metric(server: ServerProcess, kind: str) -> float:
    _, text = server.get("/metrics")
    prefix = "goqueue_storage_damage_found_total{"
    lines = [line for line in text.splitlines() if line.startswith(prefix) and kind in line]
    return sum(float(line.split()[-1]) for line in lines)


def test_delayed_messages_of_a_damaged_slot_are_delivered(
    start_server: Callable[..., ServerProcess],
) -> None:
    server = start_server()
    with closing(HttpApi(server.http_port)) as api:
        api.post("/topics", {"name": "t", "num_partitions": 1})
        api.publish("t", "first", "second", delay="5s")
    server.stop()
    (slot,) = (server.data_dir / "delay-slots").iterdir()
    size = slot.stat().st_size
    flip(slot, size - 8)  # the ids of both messages
    flip(slot, size - 24)
    server.start()
    with closing(HttpApi(server.http_port)) as api:
        eventually(lambda: api.get("/delay/stats")["pending"] == 0)
        assert api.get("/delay/stats")["delivered"] == 2
        assert damage_metric(server, "delay_slot") == 1
        assert "written anew" in server.wait_for_line(slot.name)
        titles = [each["title"] for each in api.get("/overview")["attention"]]
    assert any(slot.name in title for title in titles)


@pytest.mark.parametrize("number", [0, 2, 4, 5])
def test_a_bad_bit_in_the_queue_state_brings_back_what_its_batch_acknowledged(
    start_server: Callable[..., ServerProcess], number: int
) -> None:
    """Whichever of the first batches it hits, at most one acknowledged message is redelivered."""
    server = start_server()
    with closing(HttpApi(server.http_port)) as api:
        api.post("/topics", {"name": "t", "num_partitions": 1})
        api.publish("t", *(f"m{each}" for each in range(150)))
        for message in [each for _ in range(3) for each in poll(api, 50)]:
            api.post("/messages/ack", {"receipt_handle": message["receipt_handle"]})
    server.kill()
    stored_batches(server.data_dir, "__queue_state")[number].damage()
    server.start()
    with closing(HttpApi(server.http_port)) as api:
        assert len(poll(api, 200)) <= 1
    assert damage_metric(server, "state") == 1
    assert "__queue_state" in server.wait_for_line("are damaged on disk")
