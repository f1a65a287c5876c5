"""Schemas on a disk: what is told is stored, what could not be stored has not happened."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.broker.log_broker import TOPICS_FOLDER
from goqueue.model.errors import (
    BatchError,
    InternalTopicError,
    RegistryUnavailableError,
    SchemaError,
    SchemaValidationError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.requests import PublishRequest
from goqueue.schemas import removing
from goqueue.schemas.model import Level, Schema, SchemaType
from goqueue.schemas.service import SCHEMAS_TOPIC
from support.batches import garbage_batch
from support.brokers import publish, publish_checked, read_all, running_broker
from support.clocks import ManualClock
from support.disks import FaultyDisk

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from goqueue.schemas.registry import RegisteredVersion


async def register(broker: Broker, subject: str, number: int) -> RegisteredVersion:
    schema = Schema(SchemaType.JSON, f'{{"title":"{number}"}}')
    return await broker.schemas.change(lambda registry: registry.register(subject, schema))


def numbers(broker: Broker, subject: str) -> list[int]:
    try:
        return [each.version.number for each in broker.schemas.registry.versions(subject)]
    except SchemaError:
        return []


def test_a_broker_without_schemas_has_no_topic_for_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            assert SCHEMAS_TOPIC not in broker.topics.catalogue.by_name
            await register(broker, "s", 1)
            topic = broker.topics.catalogue.topic(SCHEMAS_TOPIC)
            assert topic.is_internal
            with pytest.raises(InternalTopicError):
                publish(broker, SCHEMAS_TOPIC, b"x", key=b"k")

    asyncio.run(scenario())


@pytest.mark.parametrize("clean", [True, False])
def test_what_was_registered_is_there_after_a_start(tmp_path: Path, clean: bool) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, clean=clean) as broker:
            for number in range(5):
                await register(broker, f"s{number % 2}", number)
            await broker.schemas.change(
                lambda registry: removing.delete_version(registry, "s0", 1, permanent=False)
            )
            await broker.schemas.change(lambda r: removing.set_level(r, "s1", Level.FULL))
            before = vars(broker.schemas.registry.state)
        async with running_broker(tmp_path) as broker:
            assert vars(broker.schemas.registry.state) == before
            assert (await register(broker, "s0", 99)).id == 6

    asyncio.run(scenario())


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_schema_that_was_not_stored_is_refused_and_has_not_happened(
    tmp_path: Path, operation: str
) -> None:
    async def scenario() -> None:
        disk = FaultyDisk(tmp_path)
        async with running_broker(tmp_path, disk=disk, clean=False) as broker:
            await register(broker, "s", 1)
            disk.fail_next(operation, errno.EIO, ending=".log")
            with pytest.raises(RegistryUnavailableError):
                await register(broker, "s", 2)
            assert numbers(broker, "s") == [1]
            with pytest.raises(RegistryUnavailableError):
                await register(broker, "s", 3)
            await broker.partitions.partition(TopicPartition(SCHEMAS_TOPIC, 0)).recover()
            stored = await register(broker, "s", 3)
            assert numbers(broker, "s")[-1] == stored.version.number
            state = broker.schemas.registry.state
            broker.schemas.registry.contexts.check_invariants()
            before = vars(state)
        async with running_broker(tmp_path) as broker:
            assert vars(broker.schemas.registry.state) == before

    asyncio.run(scenario())


def test_a_registered_schema_survives_a_power_cut(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = FaultyDisk(tmp_path / TOPICS_FOLDER, seed=5)
        async with running_broker(tmp_path, disk=disk, clean=False) as broker:
            await asyncio.gather(*(register(broker, "s", number) for number in range(1, 10)))
        disk.crash()
        async with running_broker(tmp_path, disk=disk) as broker:
            assert numbers(broker, "s") == list(range(1, 10))

    asyncio.run(scenario())


def test_a_snapshot_saves_the_next_start_the_replay(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock, clean=False) as broker:
            await register(broker, "s", 1)
            clock.advance(10 * 60 * 1000)
            await register(broker, "s", 2)
            assert broker.schemas.snapshot_bytes > 0
            await register(broker, "s", 3)
        async with running_broker(tmp_path, clock=clock) as broker:
            assert numbers(broker, "s") == [1, 2, 3]

    asyncio.run(scenario())


def test_registrations_at_the_same_time_get_numbers_of_their_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            found = await asyncio.gather(*(register(broker, "s", n % 7) for n in range(30)))
            assert {each.id for each in found} == set(range(1, 8))
            assert numbers(broker, "s") == list(range(1, 8))

    asyncio.run(scenario())


def test_a_change_is_made_to_its_end_when_whoever_asked_is_gone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            asking = asyncio.create_task(register(broker, "s", 1))
            await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert (await register(broker, "s", 1)).id == 1
            assert numbers(broker, "s") == [1]

    asyncio.run(scenario())


# --- Validation -----------------------------------------------------------------------------------


def test_a_batch_that_is_stored_already_is_not_held_against_a_newer_schema(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1, {"goqueue.schema.validation": "latest"})
            producer: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
            first = await publish_checked(broker, "t", b'"x"', **producer)
            schema = Schema(SchemaType.JSON, '{"type":"integer"}')
            await broker.schemas.change(lambda registry: registry.register("t-value", schema))
            again = await publish_checked(broker, "t", b'"x"', **producer)
            assert again.placed.first_offset == first.placed.first_offset
            with pytest.raises(SchemaValidationError) as refused:
                await publish_checked(broker, "t", b"1", b'"x"', b"null")
            assert set(refused.value.refused) == {1, 2}
            assert len(await read_all(broker, "t")) == 1

    asyncio.run(scenario())


def test_the_setting_takes_effect_with_the_next_message(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            schema = Schema(SchemaType.JSON, '{"type":"integer"}')
            await broker.schemas.change(lambda registry: registry.register("t", schema))
            await publish_checked(broker, "t", b"text")
            await broker.configure_topic("t", {"goqueue.schema.validation": "latest"})
            with pytest.raises(SchemaValidationError):
                await publish_checked(broker, "t", b"text")
            await broker.schemas.change(
                lambda registry: removing.delete_subject(registry, "t", permanent=False)
            )
            await publish_checked(broker, "t", b"text")

    asyncio.run(scenario())


def test_a_batch_that_does_not_decode_is_refused_for_that(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1, {"goqueue.schema.validation": "latest"})
            schema = Schema(SchemaType.JSON, '{"type":"integer"}')
            await broker.schemas.change(lambda registry: registry.register("t-value", schema))
            request = PublishRequest(TopicPartition("t", 0), memoryview(garbage_batch(3)))
            with pytest.raises(BatchError):
                broker.publisher.publish(await broker.publisher.checked(request))
            with pytest.raises(RegistryUnavailableError):
                publish(broker, "t", b"1")  # nobody has checked it

    asyncio.run(scenario())
