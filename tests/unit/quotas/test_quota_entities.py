"""Which quota counts for a client, in Kafka's order, and what can be set."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from goqueue.model.errors import InvalidClientQuotaError
from goqueue.quotas.client_quotas import (
    CLIENT_ID,
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    ClientQuota,
    Component,
    Entity,
    QuotaTable,
    changed,
    check_entity,
    key_of,
    matches,
)

KAFKAS_ORDER: list[Entity] = [
    {USER: "alice", CLIENT_ID: "app"},
    {USER: "alice", CLIENT_ID: None},
    {USER: "alice"},
    {USER: None, CLIENT_ID: "app"},
    {USER: None, CLIENT_ID: None},
    {USER: None},
    {CLIENT_ID: "app"},
    {CLIENT_ID: None},
]
"""As in Kafka's documentation of quotas, the nearest first."""

names = st.text(min_size=1, max_size=5)
entities = st.dictionaries(
    st.sampled_from((USER, CLIENT_ID)), st.none() | names, min_size=1, max_size=2
)


def table(*quotas: tuple[Entity, float]) -> QuotaTable:
    found = [ClientQuota(dict(entity), {PRODUCER_BYTE_RATE: rate}) for entity, rate in quotas]
    return QuotaTable({key_of(each.entity): each for each in found})


@given(chosen=st.sets(st.integers(0, 7), min_size=1))
def test_the_nearest_of_kafkas_entities_counts(chosen: set[int]) -> None:
    quotas = table(*((KAFKAS_ORDER[at], float(at + 1)) for at in chosen))
    found = quotas.find(PRODUCER_BYTE_RATE, "alice", "app")
    assert found is not None
    assert found.rate == min(chosen) + 1


def test_a_quota_of_another_client_or_of_another_kind_does_not_count() -> None:
    quotas = table(({USER: "bob"}, 1.0), ({CLIENT_ID: "other"}, 2.0))
    assert quotas.find(PRODUCER_BYTE_RATE, "alice", "app") is None
    assert quotas.find(CONSUMER_BYTE_RATE, "bob", "app") is None


def test_clients_of_one_user_share_the_bucket_of_the_user() -> None:
    quotas = table(({USER: None}, 1.0))
    one = quotas.find(PRODUCER_BYTE_RATE, "alice", "a")
    two = quotas.find(PRODUCER_BYTE_RATE, "alice", "b")
    other = quotas.find(PRODUCER_BYTE_RATE, "bob", "a")
    assert one == two != other


def test_a_client_id_has_one_bucket_for_all_users() -> None:
    quotas = table(({CLIENT_ID: "app"}, 1.0))
    alices = quotas.find(PRODUCER_BYTE_RATE, "alice", "app")
    assert alices == quotas.find(PRODUCER_BYTE_RATE, "bob", "app")


@given(one=entities, other=entities)
def test_only_the_same_entity_has_the_same_record(one: Entity, other: Entity) -> None:
    assert (key_of(one) == key_of(other)) == (one == other)


def test_quotas_are_set_and_removed() -> None:
    values = changed({PRODUCER_BYTE_RATE: 5}, {PRODUCER_BYTE_RATE: None, REQUEST_PERCENTAGE: 0.5})
    assert values == {REQUEST_PERCENTAGE: 0.5}
    assert changed({}, {CONSUMER_BYTE_RATE: None}) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nonsense", 1.0),
        (PRODUCER_BYTE_RATE, 0.0),
        (PRODUCER_BYTE_RATE, -1.0),
        (PRODUCER_BYTE_RATE, 1.5),
        (REQUEST_PERCENTAGE, math.nan),
        (REQUEST_PERCENTAGE, math.inf),
    ],
)
def test_a_quota_that_cannot_be_is_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidClientQuotaError, match="expected"):
        changed({}, {name: value})


@pytest.mark.parametrize("entity", [{}, {"ip": "::1"}, {USER: "a", "ip": None}, {USER: ""}])
def test_an_entity_that_has_no_quotas_is_refused(entity: Entity) -> None:
    with pytest.raises(InvalidClientQuotaError, match="expected"):
        check_entity(entity)


def test_a_filter_takes_entities_as_in_kafka() -> None:
    both: Entity = {USER: "alice", CLIENT_ID: None}
    exactly, default = Component(USER, name="alice"), Component(CLIENT_ID)
    assert matches(both, [], strict=False)
    assert not matches(both, [], strict=True)
    assert matches(both, [exactly], strict=False)
    assert not matches(both, [exactly], strict=True)
    assert matches(both, [exactly, default], strict=True)
    assert not matches(both, [Component(USER)], strict=False)
    assert matches(both, [Component(USER, is_any=True)], strict=False)
