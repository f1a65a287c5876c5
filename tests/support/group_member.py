"""One consumer of a group in a process of its own, that tells what happens to it line by line.

    python group_member.py '{"client": "confluent", "bootstrap": ..., "group": ..., ...}'

Each line is a JSON array: the time (`CLOCK_MONOTONIC`, the same for all processes of a machine),
what happened, and its details. SIGTERM makes it leave the group in order; `kill -9` does not.
Messages are told before their offsets can be committed, so that nothing is committed untold.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from typing import Any

leaving = False


def tell(event: str, *details: Any) -> None:
    os.write(1, (json.dumps([time.monotonic(), event, *details]) + "\n").encode())


def tell_message(topic: str, partition: int, offset: int, value: bytes | None) -> None:
    tell("message", [topic, partition], offset, (value or b"").decode())


def ask_to_leave(*_: object) -> None:
    global leaving  # noqa: PLW0603 - the one thing that a signal may touch
    leaving = True


# --- confluent-kafka (librdkafka), both protocols ------------------------------------------------


def run_confluent(options: dict[str, Any]) -> None:
    from confluent_kafka import Consumer, KafkaError  # noqa: PLC0415 - each process needs one client

    def names(partitions: list[Any]) -> list[list[Any]]:
        return [[each.topic, each.partition] for each in partitions]

    consumer = Consumer(
        {
            "bootstrap.servers": options["bootstrap"],
            "group.id": options["group"],
            "auto.offset.reset": "earliest",
            "enable.auto.offset.store": False,
            "auto.commit.interval.ms": 200,
            "topic.metadata.refresh.interval.ms": 500,
            "log_level": 0,
            **options["settings"],
        }
    )
    consumer.subscribe(
        options["topics"],
        on_assign=lambda _, parts: tell("assigned", names(parts)),
        on_revoke=lambda _, parts: tell("revoked", names(parts)),
        on_lost=lambda _, parts: tell("lost", names(parts)),
    )
    tell("started")
    while not leaving:
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error() is not None:
            tell("error", message.error().name())
            if message.error().code() == KafkaError._FATAL or message.error().fatal():
                tell("fatal", message.error().name(), message.error().str())
                break
            continue
        tell_message(message.topic(), message.partition(), message.offset(), message.value())
        consumer.store_offsets(message)
    tell("leaves")
    consumer.close()


# --- kafka-python -------------------------------------------------------------------------------


def run_kafka_python(options: dict[str, Any]) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer  # noqa: PLC0415 - as above
    from kafka.coordinator.assignors.cooperative_sticky import (  # noqa: PLC0415 - as above
        CooperativeStickyAssignor,
    )
    from kafka.coordinator.assignors.range import RangePartitionAssignor  # noqa: PLC0415
    from kafka.coordinator.assignors.roundrobin import (  # noqa: PLC0415
        RoundRobinPartitionAssignor,
    )
    from kafka.coordinator.assignors.sticky.sticky_assignor import (  # noqa: PLC0415
        StickyPartitionAssignor,
    )
    from kafka.errors import RetriableError  # noqa: PLC0415

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Any) -> None:
            tell("assigned", sorted(assigned))

        def on_partitions_revoked(self, revoked: Any) -> None:
            tell("revoked", sorted(revoked))

        def on_partitions_lost(self, lost: Any) -> None:
            tell("lost", sorted(lost))

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }
    settings = options["settings"]
    assignor = settings.pop("assignor", "range")
    consumer = KafkaConsumer(
        bootstrap_servers=options["bootstrap"],
        group_id=options["group"],
        auto_offset_reset="earliest",
        auto_commit_interval_ms=200,
        metadata_max_age_ms=500,
        partition_assignment_strategy=[assignors[assignor]],
        **settings,
    )
    consumer.subscribe(options["topics"], listener=Listener())
    tell("started")
    while not leaving:
        # When time is up in the middle of a rebalance, kafka-python forgets that it took part.
        try:
            batches = consumer.poll(timeout_ms=5000).values()
        except RetriableError as error:
            # While the broker is away, a refresh of metadata that fails at the wrong moment comes
            # out of `poll`. It says itself that trying again is right, and the next poll goes on.
            tell("retries", repr(error))
            continue
        for messages in batches:
            for each in messages:
                tell_message(each.topic, each.partition, each.offset, each.value)
    tell("leaves")
    consumer.close()


# --- aiokafka -----------------------------------------------------------------------------------


async def run_aiokafka(options: dict[str, Any]) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener  # noqa: PLC0415 - as above
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor  # noqa: PLC0415
    from aiokafka.coordinator.assignors.roundrobin import (  # noqa: PLC0415
        RoundRobinPartitionAssignor,
    )
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import (  # noqa: PLC0415
        StickyPartitionAssignor,
    )

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_assigned(self, assigned: Any) -> None:
            tell("assigned", sorted(assigned))

        async def on_partitions_revoked(self, revoked: Any) -> None:
            tell("revoked", sorted(revoked))

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }
    settings = options["settings"]
    assignor = settings.pop("assignor", "range")
    consumer = AIOKafkaConsumer(
        bootstrap_servers=options["bootstrap"],
        group_id=options["group"],
        auto_offset_reset="earliest",
        auto_commit_interval_ms=200,
        metadata_max_age_ms=500,
        partition_assignment_strategy=[assignors[assignor]],
        **settings,
    )
    consumer.subscribe(options["topics"], listener=Listener())
    await consumer.start()
    tell("started")
    try:
        while not leaving:
            for messages in (await consumer.getmany(timeout_ms=100)).values():
                for each in messages:
                    tell_message(each.topic, each.partition, each.offset, each.value)
    finally:
        tell("leaves")
        await consumer.stop()


def main() -> None:
    options = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, ask_to_leave)
    if options["client"] == "confluent":
        run_confluent(options)
    elif options["client"] == "kafka-python":
        run_kafka_python(options)
    else:
        asyncio.run(run_aiokafka(options))
    tell("left")


if __name__ == "__main__":
    main()
