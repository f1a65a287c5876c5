"""The catalogue of topics, held against a dictionary, over a real metadata store."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.model.errors import (
    DiskError,
    GoQueueError,
    InternalTopicError,
    InvalidPartitionCountError,
    InvalidTopicConfigError,
    InvalidTopicNameError,
    MetadataUnavailableError,
    TopicExistsError,
    UnknownTopicError,
    UnknownTopicIdError,
)
from goqueue.model.internal_topics import INTERNAL_TOPICS
from goqueue.model.limits import MAX_TOPIC_PARTITIONS
from goqueue.model.topic_partition import TopicPartition
from goqueue.storage.config import Fsync
from goqueue.topics.catalogue import Topics
from goqueue.topics.names import check_name
from support.brokers import publish, read_all, running_broker
from support.clocks import ManualClock
from support.disks import FaultyDisk, HastyDisk
from support.logs import disk_log

if TYPE_CHECKING:
    from uuid import UUID

INTERNAL = "__queue_state"
NAMES = ("a", "b", "c.d-e_f", "__mine", INTERNAL)
DEFAULTS = {"retention.ms": "1000"}


async def _open(path):
    return await SqliteMetadataStore.open(path, disk=HastyDisk(), clock=ManualClock())


class TopicsMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "metadata.db"
        self.store = self.runner.run(_open(self.path))
        self.topics = Topics(self.store, DEFAULTS)
        self.twin: dict[str, tuple[int, dict[str, str]]] = {}
        self.ids: dict[str, object] = {}
        self.used_ids: set[UUID] = set()
        self.changes = 0
        self.topics.on_change(self._changed)

    def _changed(self):
        self.changes += 1

    def teardown(self):
        self.runner.run(self.store.close())
        self.runner.close()
        self.folder.cleanup()

    def _do(self, change, error=None):
        """Make a change that must succeed, or fail so."""
        before = self.changes
        if error is None:
            topic = self.runner.run(change)
            assert self.changes == before + 1
            return topic
        with pytest.raises(error):
            self.runner.run(change)
        assert self.changes == before
        return None

    @rule(
        name=st.sampled_from(NAMES),
        count=st.integers(-1, 4),
        overrides=st.dictionaries(
            st.sampled_from(["retention.ms", "cleanup.policy", "no.such"]),
            st.sampled_from(["5", "compact"]),
            max_size=2,
        ),
        internal=st.booleans(),
    )
    def create(self, name, count, overrides, internal):
        error: type[GoQueueError] | None = None
        if not _valid(overrides):
            error = InvalidTopicConfigError
        if count < 1:
            error = InvalidPartitionCountError
        if name in self.twin:
            error = TopicExistsError
        if name == INTERNAL and not internal:
            error = InternalTopicError
        topic = self._do(self.topics.create(name, count, overrides, internal=internal), error)
        if topic is not None:
            self.twin[name] = (count, overrides)
            assert topic.topic_id not in self.used_ids
            self.ids[name] = topic.topic_id
            self.used_ids.add(topic.topic_id)

    @rule(name=st.sampled_from(NAMES), count=st.integers(0, 6))
    def grow(self, name, count):
        error = None
        if name in self.twin and count <= self.twin[name][0]:
            error = InvalidPartitionCountError
        error = self._changeable(name) or error
        if self._do(self.topics.grow(name, count), error) is not None:
            self.twin[name] = (count, self.twin[name][1])

    @rule(
        name=st.sampled_from(NAMES),
        overrides=st.dictionaries(
            st.sampled_from(["retention.ms", "no.such"]), st.sampled_from(["7", "x"]), max_size=2
        ),
    )
    def configure(self, name, overrides):
        error = None if _valid(overrides) else InvalidTopicConfigError
        error = self._changeable(name) or error
        if self._do(self.topics.configure(name, overrides), error) is not None:
            self.twin[name] = (self.twin[name][0], overrides)

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name):
        if self._do(self.topics.delete(name), self._changeable(name)) is not None:
            del self.twin[name]
            del self.ids[name]

    def _changeable(self, name):
        if name not in self.twin:
            return UnknownTopicError
        return InternalTopicError if name == INTERNAL else None

    @rule()
    def restart(self):
        self.runner.run(self.store.close())
        self.store = self.runner.run(_open(self.path))
        self.topics = Topics(self.store, DEFAULTS)
        self.topics.on_change(self._changed)
        self.runner.run(self.topics.load())

    @invariant()
    def is_what_the_twin_says(self):
        catalogue = self.topics.catalogue
        found = {
            name: (topic.partition_count, dict(topic.settings.overrides))
            for name, topic in catalogue.by_name.items()
        }
        assert found == self.twin
        assert {name: topic.topic_id for name, topic in catalogue.by_name.items()} == self.ids
        assert {topic.name: each for each, topic in catalogue.by_id.items()} == self.ids
        for name, (_, overrides) in self.twin.items():
            text = catalogue.topic(name).settings.text("retention.ms")
            assert text == overrides.get("retention.ms", DEFAULTS["retention.ms"])
        for gone in self.used_ids - set(self.ids.values()):
            with pytest.raises(UnknownTopicIdError):
                catalogue.topic_with_id(gone)


def _valid(overrides):
    allowed = {"retention.ms": {"5", "7"}, "cleanup.policy": {"compact"}}
    return all(value in allowed.get(name, ()) for name, value in overrides.items())


TestTopicsAgainstADictionary = TopicsMachine.TestCase
TestTopicsAgainstADictionary.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None
)


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "...", "_"])
def test_names_by_the_rule_are_taken(name):
    check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ü", "a\n", "a\0"])
def test_names_against_the_rule_are_refused(name):
    with pytest.raises(InvalidTopicNameError):
        check_name(name)


def _with_topics(folder, scenario):
    async def main():
        store = await _open(folder / "metadata.db")
        try:
            await scenario(store, Topics(store, {}))
        finally:
            await store.close()

    asyncio.run(main())


def test_a_topic_that_someone_else_changed_meanwhile_is_not_overwritten(tmp_path):
    async def scenario(store, topics):
        await topics.create("t", 1)
        other = Topics(store, {})
        await other.load()
        await other.grow("t", 3)
        with pytest.raises(MetadataUnavailableError):
            await topics.grow("t", 2)
        with pytest.raises(MetadataUnavailableError):
            await topics.delete("t")
        await topics.load()
        assert topics.catalogue.topic("t").partition_count == 3

    _with_topics(tmp_path, scenario)


def test_of_two_that_make_a_topic_at_once_one_hears_that_it_exists(tmp_path):
    async def scenario(store, topics):
        other = Topics(store, {})
        results = await asyncio.gather(
            topics.create("t", 1), other.create("t", 2), return_exceptions=True
        )
        assert sorted(isinstance(result, TopicExistsError) for result in results) == [False, True]

    _with_topics(tmp_path, scenario)


def test_a_topic_has_a_bound_on_its_partitions(tmp_path):
    async def scenario(_, topics):
        with pytest.raises(InvalidPartitionCountError):
            await topics.create("t", MAX_TOPIC_PARTITIONS + 1)

    _with_topics(tmp_path, scenario)


def test_a_topic_made_while_its_namesake_is_being_deleted_has_partitions_of_its_own(tmp_path):
    async def scenario():
        async with running_broker(tmp_path) as broker:
            old = await broker.create_topic("t", 3)
            publish(broker, "t", b"old")
            gone = asyncio.Event()
            broker.topics.on_change(gone.set)
            held = disk_log(broker.partitions.partition(TopicPartition("t", 0)))._upkeep
            async with held:  # something works on the files of the first partition
                deleting = asyncio.create_task(broker.delete_topic("t"))
                await asyncio.wait_for(gone.wait(), 60)
                new = await broker.create_topic("t", 3)
            await asyncio.wait_for(deleting, 60)
            assert new.topic_id != old.topic_id
            assert publish(broker, "t", b"new").placed.first_offset == 0
            assert [record.value for record in await read_all(broker, "t")] == [b"new"]
            assert [p.id.partition for p in broker.partitions.of_topic(new)] == [0, 1, 2]
        async with running_broker(tmp_path) as broker:
            assert [record.value for record in await read_all(broker, "t")] == [b"new"]

    asyncio.run(scenario())


def test_what_an_interrupted_deletion_left_is_removed_at_the_next_start(tmp_path):
    async def scenario():
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            publish(broker, "t", b"v")
            topic = await broker.topics.delete("t")  # the metadata is gone, the files are not
        left = tmp_path / "topics" / "t" / topic.topic_id.hex
        assert left.is_dir()
        async with running_broker(tmp_path):
            assert not left.exists()

    asyncio.run(scenario())


def test_a_deletion_that_was_not_interrupted_leaves_no_mark(tmp_path):
    async def scenario():
        async with running_broker(tmp_path) as broker:
            topic = await broker.create_topic("t", 1)
            publish(broker, "t", b"v")
            await broker.delete_topic("t")
            assert not (tmp_path / "topics" / "t" / topic.topic_id.hex).exists()
            assert await broker.topics.deleted() == []

    asyncio.run(scenario())


def test_records_of_topics_that_lost_metadata_forgot_are_left_alone(tmp_path, caplog):
    async def scenario():
        async with running_broker(tmp_path) as broker:
            topic = await broker.create_topic("t", 1)
            publish(broker, "t", b"v")
        for path in tmp_path.glob("metadata.db*"):
            path.unlink()
        async with running_broker(tmp_path) as broker:
            assert "t" not in broker.topics.catalogue.by_name
            assert list((tmp_path / "topics" / "t" / topic.topic_id.hex / "0").glob("*.log"))
        assert f"t/{topic.topic_id.hex} holds records" in caplog.text

    asyncio.run(scenario())


def test_a_partition_that_refuses_to_go_does_not_keep_the_others(tmp_path):
    async def scenario():
        disk = FaultyDisk(tmp_path / "topics")
        async with running_broker(tmp_path, disk=disk) as broker:
            topic = await broker.create_topic("t", 3)
            folder = tmp_path / "topics" / "t" / topic.topic_id.hex
            publish(broker, "t", b"v")
            disk.fail_next("remove_folder", ending="0")
            disk.fail_next("remove_folder", ending=topic.topic_id.hex)
            with pytest.raises(DiskError):
                await broker.delete_topic("t")
            assert "t" not in broker.topics.catalogue.by_name
            assert all(partition.id.topic != "t" for partition in broker.partitions)
            assert folder.is_dir()
        async with running_broker(tmp_path):
            assert not folder.exists()

    asyncio.run(scenario())


def test_a_partition_that_cannot_be_closed_does_not_keep_the_others_open(tmp_path, caplog):
    async def scenario():
        disk = FaultyDisk(tmp_path / "topics")
        async with running_broker(tmp_path, disk=disk) as broker:
            await broker.create_topic("a", 1, {"goqueue.fsync": "never"})
            await broker.create_topic("b", 1, {"goqueue.fsync": "never"})
            publish(broker, "a", b"v")
            publish(broker, "b", b"v")
            disk.fail_next("sync", ending=".log")
        assert "a-0 was not closed cleanly" in caplog.text
        async with running_broker(tmp_path) as broker:
            scanned = {p.id.topic: p.recovery.scanned_bytes for p in broker.partitions}
            assert scanned["a"] > 0
            assert scanned["b"] == 0
            assert [record.value for record in await read_all(broker, "a")] == [b"v"]

    asyncio.run(scenario())


def test_a_change_whose_client_is_gone_is_made_to_the_end(tmp_path):
    async def scenario():
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("old", 1)
            publish(broker, "old", b"v")
            for change in (broker.create_topic("new", 1), broker.delete_topic("old")):
                asked = asyncio.create_task(change)
                await asyncio.sleep(0)  # it has begun
                asked.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asked
            await asyncio.wait_for(broker.topic_changes.stop(), 60)
            names = set(broker.topics.catalogue.by_name)
            assert {name for name in names if not name.startswith("__")} == {"new"}
            assert publish(broker, "new", b"v").placed.first_offset == 0
            assert await broker.topics.deleted() == []
        async with running_broker(tmp_path) as broker:
            names = set(broker.topics.catalogue.by_name)
            assert {name for name in names if not name.startswith("__")} == {"new"}

    asyncio.run(scenario())


def test_a_topic_that_was_deleted_meanwhile_has_no_partitions(tmp_path):
    async def scenario():
        async with running_broker(tmp_path) as broker:
            topic = await broker.create_topic("t", 2)
            await broker.delete_topic("t")
            with pytest.raises(UnknownTopicError):
                broker.partitions.of_topic(topic)

    asyncio.run(scenario())


def test_a_start_restores_the_settings_that_the_state_of_an_internal_topic_depends_on(
    tmp_path, caplog
):
    required = INTERNAL_TOPICS["__delay_state"]

    async def scenario():
        async with running_broker(tmp_path) as broker:
            changed = {"retention.ms": "1", "internal.segment.bytes": "4096"}
            await broker.topics.configure("__delay_state", changed, internal=True)
        async with running_broker(tmp_path) as broker:
            topic = broker.topics.catalogue.topic("__delay_state")
            assert topic.settings.overrides == {**required, "internal.segment.bytes": "4096"}
            assert broker.partitions.of_topic(topic)[0].fsync is Fsync.ALWAYS
        assert "restored the settings" in caplog.text

    asyncio.run(scenario())


def test_a_server_wide_limit_by_size_does_not_touch_the_state_of_queues(tmp_path):
    async def scenario():
        defaults = {"retention.bytes": "1000", "retention.ms": "1000"}
        async with running_broker(tmp_path, topic_defaults=defaults) as broker:
            await broker.create_internal_topic("__queue_state", 1)
            settings = broker.topics.catalogue.topic("__queue_state").settings
            assert (settings.text("retention.bytes"), settings.text("retention.ms")) == ("-1", "-1")

    asyncio.run(scenario())


def test_there_is_a_bound_on_the_partitions_of_all_topics(tmp_path):
    async def scenario():
        async with running_broker(tmp_path, max_partitions=6) as broker:
            await broker.create_topic("a", 3)
            await broker.create_topic("b", 2)
            with pytest.raises(InvalidPartitionCountError, match=r"there are 5.*max_partitions"):
                await broker.create_topic("c", 2)
            with pytest.raises(InvalidPartitionCountError, match="allows 6"):
                await broker.grow_topic("b", 4)
            await broker.grow_topic("b", 3)
            await broker.create_internal_topic("__transaction_state", 4)
            await broker.delete_topic("a")
            await broker.create_topic("c", 3)
            assert set(broker.topics.catalogue.by_name) >= {"b", "c"}

    asyncio.run(scenario())
