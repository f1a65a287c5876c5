"""The page of Kafka's settings says what the tables declare, and the tables know what Kafka has."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from goqueue.configs.absent_settings import ABSENT, ABSENT_OF_GROUPS, absence, matches
from goqueue.configs.broker_setting_table import BROKER_SETTINGS, TOPIC_SYNONYMS
from goqueue.configs.coordinated_setting_table import COORDINATED_SETTINGS
from goqueue.protocols.kafka.configs.reference import reference
from goqueue.protocols.kafka.configs.share_settings import SHARE_SETTINGS
from goqueue.server.config import Config
from goqueue.server.config_docs import kafka_view
from goqueue.topics.setting import Effect
from goqueue.topics.setting_table import LISTED, OWN_SETTINGS, SETTINGS
from support import kafka_4_3_settings as kafka

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "kafka-settings.md"
NOT_DYNAMIC_HERE = {"listeners", "sasl.enabled.mechanisms"}


def test_the_page_of_kafkas_settings_is_current() -> None:
    hint = (
        "run: .venv/bin/python -m goqueue.protocols.kafka.configs.reference > "
        "docs/reference/kafka-settings.md"
    )
    assert PAGE.read_text(encoding="utf-8") == reference(), hint


def test_topics_have_every_setting_of_kafkas_and_no_others_but_our_own() -> None:
    assert {each.name for each in LISTED} - OWN_SETTINGS == kafka.TOPIC_SETTINGS


def test_every_setting_of_kafkas_brokers_is_shown_or_has_a_reason_to_be_absent() -> None:
    missing = [name for name in kafka.BROKER_SETTINGS if name not in BROKER_SETTINGS]
    assert [name for name in missing if absence(name) is None] == []
    shown = {name for name, each in BROKER_SETTINGS.items() if not each.setting.is_hidden}
    assert shown <= kafka.BROKER_SETTINGS


def test_every_reason_to_be_absent_is_for_a_setting_that_kafka_has() -> None:
    missing = kafka.BROKER_SETTINGS - BROKER_SETTINGS.keys()
    beginnings = [each for names, _ in ABSENT for each in names]
    assert [each for each in beginnings if not any(map(partial(matches, each), missing))] == []


def test_settings_of_the_broker_change_at_run_time_where_kafkas_do() -> None:
    dynamic = {name for name, each in BROKER_SETTINGS.items() if each.is_dynamic}
    hidden = {name for name, each in BROKER_SETTINGS.items() if each.setting.is_hidden}
    theirs = kafka.DYNAMIC_SETTINGS & BROKER_SETTINGS.keys()
    assert dynamic - hidden == theirs - NOT_DYNAMIC_HERE


def test_groups_have_every_setting_of_kafkas_or_a_reason() -> None:
    ours = COORDINATED_SETTINGS.keys() | SHARE_SETTINGS.keys()
    assert ours | ABSENT_OF_GROUPS.keys() == kafka.GROUP_SETTINGS


def test_every_setting_without_effect_says_why() -> None:
    tables = (SETTINGS.values(), (each.setting for each in BROKER_SETTINGS.values()))
    every = [setting for table in tables for setting in table]
    assert [each.name for each in every if each.effect is Effect.NONE and not each.note] == []


@pytest.mark.parametrize("setting", [*SETTINGS.values()], ids=lambda each: each.name)
def test_the_default_of_a_setting_is_one_of_its_values(setting) -> None:
    if setting.name != "internal.segment.bytes":  # 0 is that there is none
        assert setting.objection(setting.default) is None
    assert setting.documentation.endswith(".")


def test_defaults_are_those_of_the_servers_configuration() -> None:
    always_given = {"log.dirs", "listeners"}
    differing = {
        name: value
        for name, value in kafka_view(Config()).items()
        if name not in always_given and BROKER_SETTINGS[name].setting.default != value
    }
    assert differing == {}


def test_a_topic_setting_has_one_synonym_of_the_broker() -> None:
    assert len(TOPIC_SYNONYMS) == sum(each.topic is not None for each in BROKER_SETTINGS.values())
    assert TOPIC_SYNONYMS["retention.ms"] == "log.retention.ms"
