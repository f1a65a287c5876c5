"""Settings that are given to a running broker: who follows them, and for how long they hold."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.configs.broker_configs import Level
from goqueue.groups.settings import GroupSettings
from goqueue.model.errors import InvalidTopicConfigError, ReadOnlyConfigError
from goqueue.model.internal_topics import CONSUMER_OFFSETS
from goqueue.model.limits import MAX_BATCH_BYTES
from goqueue.model.topic_partition import TopicPartition
from goqueue.runtime.tasks import PeriodicTasks
from goqueue.topics.setting_table import SETTINGS
from goqueue.topics.settings import _MAX_COMPRESSION_LEVEL, TopicSettings
from support.brokers import publish, running_broker
from support.clocks import ManualClock
from support.logs import disk_log

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.broker.broker import Broker

HOUR_MS = 3_600_000


def _run(scenario) -> None:
    asyncio.run(scenario())


def _log_config(broker: Broker, topic: str):
    return disk_log(broker.partitions.partition(TopicPartition(topic, 0))).config


def test_logs_follow_the_node_before_the_cluster_before_the_configuration(tmp_path: Path) -> None:
    async def scenario() -> None:
        static = {"segment.bytes": "5000000"}
        async with running_broker(tmp_path, topic_defaults=static) as broker:
            await broker.create_topic("t", 1)
            await broker.create_topic("own", 1, {"segment.bytes": "9000000"})
            assert _log_config(broker, "t").segment_bytes == 5_000_000
            await broker.configure(Level.CLUSTER, {"log.segment.bytes": "6000000"})
            assert _log_config(broker, "t").segment_bytes == 6_000_000
            await broker.configure(Level.NODE, {"log.segment.bytes": "7000000"})
            assert _log_config(broker, "t").segment_bytes == 7_000_000
            await broker.create_topic("later", 1)
            assert _log_config(broker, "later").segment_bytes == 7_000_000
            assert _log_config(broker, "own").segment_bytes == 9_000_000
            await broker.configure(Level.NODE, {})
            await broker.configure(Level.CLUSTER, {})
            assert _log_config(broker, "t").segment_bytes == 5_000_000

    _run(scenario)


@pytest.mark.parametrize("clean", [True, False])
def test_what_was_set_holds_after_a_stop_and_after_a_kill(tmp_path: Path, clean: bool) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, clean=clean) as broker:
            await broker.create_topic("t", 1)
            await broker.configure(Level.CLUSTER, {"log.retention.ms": "5000"})
            await broker.configure(Level.NODE, {"log.segment.bytes": "7000000"})
            await broker.coordinated_group_configs.replace(
                "g", {"consumer.heartbeat.interval.ms": "7000", "streams.num.standby.replicas": "2"}
            )
        async with running_broker(tmp_path) as broker:
            topic = broker.topics.catalogue.topic("t")
            assert topic.settings.retention_ms == 5000
            assert _log_config(broker, "t").segment_bytes == 7_000_000
            settings = broker.coordinated_group_configs.settings_of("g")
            assert settings.consumer_heartbeat_interval_ms == 7000
            assert settings.streams_standby_count == 2
            assert broker.coordinated_group_configs.settings_of("other") == GroupSettings()

    _run(scenario)


def test_a_heartbeat_interval_that_is_no_shorter_than_the_session_is_refused(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        groups = GroupSettings(
            streams_session_timeout_ms=6000,
            streams_min_session_timeout_ms=6000,
            consumer_session_timeout_ms=1,
        )
        async with running_broker(tmp_path, groups=groups) as broker:
            configs = broker.coordinated_group_configs
            with pytest.raises(
                InvalidTopicConfigError, match=r"streams\.heartbeat.* 6000, expected"
            ):
                configs.check({"streams.heartbeat.interval.ms": "6000"})
            configs.check({"streams.heartbeat.interval.ms": "5999"})
            configs.check(
                {"streams.heartbeat.interval.ms": "6000", "streams.session.timeout.ms": "6001"}
            )

    _run(scenario)


def test_the_broker_shows_the_settings_of_groups_that_it_was_started_with(tmp_path: Path) -> None:
    async def scenario() -> None:
        groups = GroupSettings(streams_standby_count=1, streams_max_standby_count=4)
        async with running_broker(tmp_path, groups=groups) as broker:
            assert broker.configs.text("group.streams.num.standby.replicas") == "1"
            assert broker.configs.text("group.streams.max.standby.replicas") == "4"
            assert broker.coordinated_group_configs.default("streams.num.standby.replicas") == "1"
            broker.coordinated_group_configs.check({"streams.num.standby.replicas": "4"})

    _run(scenario)


def test_internal_topics_do_not_follow_what_is_set_for_the_broker(tmp_path: Path) -> None:
    async def scenario() -> None:
        ruinous = {
            "message.max.bytes": "1",
            "log.retention.ms": "1",
            "log.segment.bytes": "1048576",
        }
        async with running_broker(tmp_path) as broker:
            before = _log_config(broker, CONSUMER_OFFSETS)
            await broker.configure(Level.CLUSTER, ruinous)
            assert _log_config(broker, CONSUMER_OFFSETS) == before
        async with running_broker(tmp_path) as broker:
            assert _log_config(broker, CONSUMER_OFFSETS) == before
            settings = broker.topics.catalogue.topic(CONSUMER_OFFSETS).settings
            assert settings.max_message_bytes > 1_000_000

    _run(scenario)


def test_a_change_with_one_wrong_setting_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            for wrong, error in (
                ({"num.partitions": "5"}, ReadOnlyConfigError),
                ({"ssl.keystore.type": "JKS"}, ReadOnlyConfigError),
                ({"no.such": "5"}, InvalidTopicConfigError),
            ):
                with pytest.raises(error, match=next(iter(wrong))):
                    await broker.configure(Level.NODE, {"log.retention.ms": "5", **wrong})
            assert broker.configs.overrides(Level.NODE) == {}
            assert broker.topics.catalogue.topic("t").settings.retention_ms != 5

    _run(scenario)


def test_producers_are_forgotten_by_the_expiry_that_was_set_last(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock) as broker:
            await broker.create_topic("t", 1)
            ids: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
            publish(broker, "t", b"v", **ids)
            maintenance = broker.maintenance()
            partition = broker.partitions.partition(TopicPartition("t", 0))
            clock.advance(2 * HOUR_MS)
            await maintenance.expire()
            assert [producer for producer, _ in partition.sequences] == [1]
            await broker.configure(Level.CLUSTER, {"producer.id.expiration.ms": str(HOUR_MS)})
            await maintenance.expire()
            assert [producer for producer, _ in partition.sequences] == []

    _run(scenario)


def test_compaction_runs_at_the_interval_that_was_set_last(tmp_path: Path) -> None:
    async def scenario() -> None:
        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)
            await asyncio.Event().wait()

        async with running_broker(tmp_path) as broker:
            await broker.configure(Level.NODE, {"log.cleaner.backoff.ms": "1250"})
            tasks = PeriodicTasks(sleep)
            await broker.maintenance(tasks=tasks).start()
            await asyncio.sleep(0)
            await tasks.stop()
        assert 1.25 in waits

    _run(scenario)


# --- Topics ---------------------------------------------------------------------------------------


def test_what_an_older_version_accepted_does_not_keep_others_from_being_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            with monkeypatch.context() as older:
                older.setitem(SETTINGS, "message.downconversion.enable", SETTINGS["preallocate"])
                old = {"message.downconversion.enable": "true"}
                await broker.create_topic("t", 1, old)
            await broker.configure_topic("t", {**old, "retention.ms": "5"})
            assert broker.topics.catalogue.topic("t").settings.retention_ms == 5
            with pytest.raises(InvalidTopicConfigError, match="downconversion"):
                await broker.configure_topic("t", {"message.downconversion.enable": "false"})

    _run(scenario)


@pytest.mark.parametrize(
    ("codec", "level", "expected"),
    [
        ("zstd", "22", _MAX_COMPRESSION_LEVEL),
        ("lz4", "17", _MAX_COMPRESSION_LEVEL),
        ("gzip", "4", 4),
        ("gzip", "-1", None),
        ("zstd", "-5", -5),
        ("snappy", "1", None),
        ("producer", "1", None),
    ],
)
def test_levels_are_bounded_by_what_a_batch_may_take(codec, level, expected) -> None:
    overrides = {"compression.type": codec, f"compression.{codec}.level": level}
    assert TopicSettings(overrides).compression_level == expected


def test_a_batch_is_bounded_whatever_a_topic_allows() -> None:
    assert TopicSettings({"max.message.bytes": "2147483647"}).max_message_bytes == MAX_BATCH_BYTES


def test_a_topic_with_an_empty_policy_neither_deletes_nor_compacts() -> None:
    settings = TopicSettings({"cleanup.policy": ""})
    assert not settings.deletes
    assert not settings.compacts
