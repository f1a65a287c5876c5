"""`kill -9` of a broker that is backed up under load: what was acknowledged is restored."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Self

from goqueue.testing import Broker
from support.backup_load import (
    HELD,
    JOBS,
    ORDERS,
    PAID,
    PARTITIONS,
    PAYERS,
    READERS,
    WORKERS,
    Committer,
    Payer,
    Publisher,
    Worker,
    is_aborted,
    join_workers,
    transactional,
    write_everywhere,
)
from support.backups import BackupApi
from support.exactly_once import read_all
from support.server import start_server
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.http_api import HttpApi
    from support.server import ServerProcess

__all__ = ["start_server"]

KILLS = 3
MORE_BYTES = 500_000
RATE_BYTES = 10_000
"""A backup takes most of a minute for what is published before it begins; it is killed within a
second."""


class Load:
    """All clients of one server."""

    def __init__(self, server: ServerProcess) -> None:
        self._stack = ExitStack()
        self.publisher = Publisher(server.kafka_address)
        self.committer = Committer(server.kafka_address, self.publisher)
        self.worker = Worker(server.http_port)
        self.payer = Payer(server.kafka_address)

    def __enter__(self) -> Self:
        with self._stack:
            for each in (self.publisher, self.committer, self.worker, self.payer):
                self._stack.enter_context(each)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def test_a_backup_under_load_survives_kills_and_holds_what_was_acknowledged_before_it(
    start_server: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    luck = random.Random(7)
    server = start_server()
    with closing(BackupApi(server.http_url, str(tmp_path / "backups"))) as made:
        for topic in (ORDERS, JOBS, PAID):
            made.api.post("/topics", {"name": topic, "num_partitions": PARTITIONS})
        with Load(server) as load:
            for _ in range(KILLS):
                load.publisher.wait_for_more(MORE_BYTES)
                made.begin("/admin/backup", {"rate_bytes": RATE_BYTES})
                time.sleep(luck.uniform(0.1, 0.8))
                server.kill()
                server.restart()
                made.close()
            assert made.list() == [], "a backup that was killed is none"
            holder = transactional(server.kafka_address, HELD)
            holder.begin_transaction()
            write_everywhere(holder, HELD)
            load.publisher.wait_for_more(MORE_BYTES)
            job = made.create()
            time.sleep(0.3)
            holder.commit_transaction(60)
        made.done(job)
        (info,) = made.list()
        made.done(made.verify())
    server.close()
    moment = info["created_at"] / 1000
    with (
        Broker() as target,
        closing(BackupApi(target.http_url, str(tmp_path / "backups"))) as restored,
    ):
        restored.done(restored.restore())
        ends = check_messages(target, load, moment)
        check_offsets(restored.api, load, moment, ends)
        check_transactions(target, restored.api, load, moment)
        check_jobs(restored.api, load, moment)


def check_messages(target: Broker, load: Load, moment: float) -> dict[int, int]:
    """All that were acknowledged, once each and without a hole; the ends of the partitions."""
    expected = load.publisher.before(moment)
    assert expected
    found = target.messages(ORDERS)
    values = [message.value for message in found]
    assert len(values) == len(set(values)), "an idempotent producer's message is there once"
    assert expected <= set(values), f"{len(expected - set(values))} acknowledged ones are missing"
    ends = {}
    for number in range(PARTITIONS):
        offsets = [message.offset for message in found if message.partition == number]
        assert offsets == list(range(len(offsets))), "there is no hole"
        ends[number] = len(offsets)
    return ends


def check_offsets(api: HttpApi, load: Load, moment: float, ends: dict[int, int]) -> None:
    """Each is at least what was committed last, and not past what is there."""
    expected = load.committer.before(moment)
    assert len(expected) == PARTITIONS
    found = api.get(f"/groups/{READERS}/offsets")["offsets"][ORDERS]
    for number, offset in expected.items():
        assert offset <= found[str(number)] <= ends[number]


def check_transactions(target: Broker, api: HttpApi, load: Load, moment: float) -> None:
    """Each is there in all partitions and with its offset, or not at all; none is left open."""
    writer = transactional(target.kafka_address, "after")
    writer.begin_transaction()
    write_everywhere(writer, "after")
    writer.commit_transaction(60)
    places: dict[str, list[int]] = {}
    for message in read_all(target.kafka_address, PAID):
        value, partition = message.value(), message.partition()
        assert value is not None
        assert partition is not None
        places.setdefault(value.decode(), []).append(partition)
    assert sorted(places.pop("after", [])) == list(range(PARTITIONS)), "one before it is open"
    assert HELD not in places, "what was open at the moment is aborted"
    halves = [name for name, each in places.items() if sorted(each) != list(range(PARTITIONS))]
    assert not halves
    numbers = {int(name) for name in places}
    assert not [each for each in numbers if is_aborted(each)]
    expected = load.payer.before(moment)
    assert expected
    assert expected <= numbers
    offset = api.get(f"/groups/{PAYERS}/offsets")["offsets"][PAID]["0"]
    assert offset == max(numbers) + 1, "that of the transaction that was committed last"


def check_jobs(api: HttpApi, load: Load, moment: float) -> None:
    """What was acknowledged is not delivered again, all else is."""
    published, done = load.worker.before(moment)
    assert done
    assert published - load.worker.settled, "some were never acknowledged"
    delivered: set[str] = set()
    member = eventually(lambda: join_workers(api))

    def look() -> bool:
        query = f"member_id={member}&limit=100&timeout=1s"
        messages = api.get(f"/groups/{WORKERS}/poll?{query}")["messages"]
        delivered.update(each["value"] for each in messages)
        if messages:
            receipts = [each["receipt_handle"] for each in messages]
            api.post("/messages/ack/batch", {"receipt_handles": receipts})
        return api.get(f"/groups/{WORKERS}")["total_lag"] == 0

    eventually(look, "every job is done")
    assert not delivered & done, "acknowledged ones were delivered again"
    assert published - load.worker.settled <= delivered, "some are lost"


def test_a_restore_that_was_killed_leaves_topics_closed_and_the_next_one_begins_anew(
    start_server: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    with Broker() as source:
        source.create_topic("orders", partitions=2)
        for number in range(400):
            source.publish("orders", str(number).ljust(5000), key=str(number))
        with closing(BackupApi(source.http_url, str(tmp_path / "backups"))) as made:
            made.done(made.create())
    server = start_server()
    with closing(BackupApi(server.http_url, str(tmp_path / "backups"))) as restored:
        restored.begin("/admin/backup/latest/restore", {"rate_bytes": RATE_BYTES})
        eventually(lambda: restored.api.ask("GET", "/topics/orders").status == 200)
        assert "topic_restoring" in refusal(restored.api)
        server.kill()
        server.restart()
        restored.close()
        assert "topic_restoring" in refusal(restored.api)
        restored.done(restored.restore())
        assert restored.api.get("/topics/orders")["total_messages"] == 400
        assert restored.api.publish("orders", "x")[0]["status"] == 200


def refusal(api: HttpApi) -> str:
    answer = api.ask("POST", "/topics/orders/messages", {"messages": [{"value": "x"}]})
    return str(answer.json)
