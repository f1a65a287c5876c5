"""Settings of consumer groups (KIP-848) and Streams groups (KIP-1071), as Kafka 4.3 has them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode

from goqueue.wire.kafka.api_keys import ApiKey
from protocol.config_admin import DEFAULT, DELETE, GROUP, OF_GROUP, ConfigAdmin, eventually

if TYPE_CHECKING:
    from protocol.raw_kafka import RawKafka

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
STANDBYS = "streams.num.standby.replicas"
DELAY = "streams.initial.rebalance.delay.ms"
EITHER = pytest.mark.parametrize("kind", ["consumer", "streams"])


def of(kind: str) -> tuple[str, str, str]:
    """Session timeout, heartbeat interval and assignment interval of one kind of group."""
    return (
        f"{kind}.session.timeout.ms",
        f"{kind}.heartbeat.interval.ms",
        f"{kind}.assignment.interval.ms",
    )


@pytest.fixture
def admin(raw: RawKafka) -> ConfigAdmin:
    return ConfigAdmin(raw)


@EITHER
def test_settings_of_a_group_that_does_not_exist_are_shown_changed_and_go_back(admin, name, kind):
    group = name("group")
    session, heartbeat, assignment = of(kind)
    defaults = {session: "45000", heartbeat: "5000", assignment: "1000"}
    changes = {session: "50000", heartbeat: "6000", assignment: "0"}
    if kind == "streams":
        defaults |= {STANDBYS: "0", DELAY: "3000"}
        changes |= {STANDBYS: "2", DELAY: "0"}
    found = admin.describe(GROUP, group)
    for setting, default in defaults.items():
        entry = found[setting]
        assert (entry.value, entry.source, entry.kind) == (default, DEFAULT, 3)
        assert entry.synonyms == [(f"group.{setting}", default, DEFAULT)]
        assert entry.documentation
    assert admin.change(GROUP, group, changes) == (ErrorCode.none, None)

    def values():
        return {key: admin.describe(GROUP, group, key)[key].value for key in changes}

    eventually(values, changes)
    synonyms = admin.describe(GROUP, group, session)[session].synonyms
    assert synonyms == [(session, "50000", OF_GROUP), (f"group.{session}", "45000", DEFAULT)]
    assert admin.change(GROUP, group, {session: None}, DELETE) == (ErrorCode.none, None)
    eventually(values, {**changes, session: "45000"})
    assert admin.replace(GROUP, group, {session: "46000"}) == (ErrorCode.none, None)
    eventually(values, {**defaults, session: "46000"})


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        *((of(kind)[0], ("0", "44999", "60001", "soon", "-1")) for kind in ("consumer", "streams")),
        *((of(kind)[1], ("0", "4999", "15001", "x")) for kind in ("consumer", "streams")),
        *((of(kind)[2], ("-1", "15001", "x")) for kind in ("consumer", "streams")),
        (STANDBYS, ("-1", "3", "x")),
        (DELAY, ("-1", "2147483648", "x")),
        ("consumer.no.such", ("1",)),
        ("streams.no.such", ("1",)),
    ],
)
def test_values_outside_of_the_brokers_bounds_are_refused(admin, name, setting, values):
    group = name("group")
    for value in values:
        code, message = admin.change(GROUP, group, {setting: value})
        assert code is ErrorCode.invalid_config
        assert setting in message
    if setting in admin.describe(GROUP, group):
        assert admin.describe(GROUP, group, setting)[setting].source == DEFAULT


def test_replacing_the_settings_of_one_kind_takes_those_of_the_other_back(admin, name):
    group, streams_session = name("group"), of("streams")[0]
    assert admin.change(GROUP, group, {SESSION: "50000"})[0] is ErrorCode.none
    assert admin.replace(GROUP, group, {streams_session: "51000"})[0] is ErrorCode.none

    def values():
        found = admin.describe(GROUP, group)
        return found[SESSION].value, found[streams_session].value

    eventually(values, ("45000", "51000"))


def test_settings_need_the_name_of_a_group(admin):
    assert admin.change(GROUP, "", {SESSION: "50000"})[0] is ErrorCode.invalid_request
    assert admin.described(GROUP, "")[0] is ErrorCode.invalid_request


def test_members_are_told_the_heartbeat_interval_of_their_group(raw, admin, name):
    topic, group, member = name("topic"), name("group"), str(uuid4())
    raw.create(topic)
    joined = _heartbeat(raw, group, member, 0, [topic])
    assert (joined.error_code, joined.heartbeat_interval_ms) == (0, 5000)
    assert admin.change(GROUP, group, {HEARTBEAT: "7000"}) == (ErrorCode.none, None)
    epoch = joined.member_epoch

    def told():
        return _heartbeat(raw, group, member, epoch).heartbeat_interval_ms

    eventually(told, 7000)
    _heartbeat(raw, group, member, -1)


def _heartbeat(raw: RawKafka, group: str, member: str, epoch: int, topics=None):
    for _ in range(100):
        answer = raw.ask(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            instance_id=None,
            rack_id=None,
            rebalance_timeout_ms=300_000 if epoch == 0 else -1,
            subscribed_topic_names=topics,
            subscribed_topic_regex=None,
            server_assignor=None,
            topic_partitions=[] if epoch == 0 else None,
        )
        if answer.error_code not in {15, 16}:  # the coordinator is being made
            return answer
        time.sleep(0.1)
    raise AssertionError(answer)


def test_a_group_with_settings_is_listed_among_the_resources_that_have_some(raw, admin, name):
    group = name("group")
    assert admin.change(GROUP, group, {SESSION: "50000"}) == (ErrorCode.none, None)

    def listed():
        answer = raw.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[GROUP])
        return group in {each.resource_name for each in answer.config_resources}

    eventually(listed, expected=True)
