"""What members make the coordinator hold is counted, bounded, and given back."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from msgspec.structs import replace

from goqueue.groups.member_memory import MemberMemory
from goqueue.model.errors import (
    GroupMaxSizeError,
    InvalidGroupIdError,
    InvalidGroupRequestError,
)
from unit.groups.group_driver import AT_ONCE, SESSION_MS, Driver

SMALL = replace(
    AT_ONCE, max_member_bytes=10_000, max_group_bytes=30_000, member_memory_bytes=50_000
)


def metadata(size: int) -> tuple[tuple[str, bytes], ...]:
    return (("range", bytes(size)),)


def test_a_member_that_says_too_much_is_refused() -> None:
    driver = Driver(SMALL)
    with pytest.raises(InvalidGroupRequestError, match="10000 are allowed"):
        driver.result(driver.join(protocols=metadata(10_000)))
    many = tuple((f"p{number}", bytes(1000)) for number in range(10))
    with pytest.raises(InvalidGroupRequestError):
        driver.result(driver.join(protocols=many))
    with pytest.raises(InvalidGroupRequestError):
        driver.consume_first("a", subscribed_names=frozenset({"x" * 10_000}))
    assert driver.coordinator.list_groups() == []


class Named(str):
    """A text of which can be seen that nobody holds it any more."""

    __slots__ = ("__weakref__",)


def test_a_join_that_was_refused_does_not_wait_for_a_collection_of_garbage() -> None:
    driver = Driver(SMALL)
    client_id = Named("client")
    held = weakref.ref(client_id)
    gc.disable()
    try:
        driver.join(client_id=client_id, protocols=metadata(10_000))
        del client_id
        assert held() is None
    finally:
        gc.enable()


def test_a_group_holds_so_much_and_its_members_may_say_the_same_again() -> None:
    driver = Driver(SMALL)
    ids = driver.stable(3, protocols=metadata(9_000))
    with pytest.raises(GroupMaxSizeError, match="group 'g' is full"):
        driver.result(driver.join(protocols=metadata(9_000)))
    for member_id in ids:
        driver.join(member_id=member_id, protocols=metadata(9_000))
    assert driver.state() == "CompletingRebalance"


def test_all_groups_together_hold_so_much_and_give_it_back() -> None:
    driver = Driver(SMALL)
    for number in range(5):
        driver.stable(1, f"g{number}", protocols=metadata(9_000))
    with pytest.raises(GroupMaxSizeError, match=r"groups\.member_memory"):
        driver.result(driver.join("another", protocols=metadata(9_000)))
    driver.advance(SESSION_MS + 1)
    driver.stable(1, "another", protocols=metadata(9_000))


def test_assignments_count_too() -> None:
    driver = Driver(SMALL)
    joined = driver.result(driver.join(protocols=metadata(100)))
    with pytest.raises(GroupMaxSizeError):
        driver.result(
            driver.sync(joined.member_id, joined.generation, {joined.member_id: bytes(30_000)})
        )
    for _ in range(2):
        given = {joined.member_id: bytes(20_000)}
        driver.result(driver.sync(joined.member_id, joined.generation, given))


def test_ids_that_were_handed_out_count_until_their_time_is_over() -> None:
    driver = Driver(SMALL)
    for number in range(40):
        driver.join(f"g{number}", client_id="c" * 900, require_known_member_id=True)
    with pytest.raises(GroupMaxSizeError):
        driver.result(driver.join("g", client_id="c" * 900, protocols=metadata(5_000)))
    driver.advance(SESSION_MS + 1)
    driver.stable(1, protocols=metadata(5_000))


def test_subscriptions_of_the_new_protocol_count_and_change() -> None:
    driver = Driver(SMALL)
    names = frozenset({"n" * 9_000})
    epochs = {each: driver.consume_first(each, subscribed_names=names).epoch for each in "abc"}
    with pytest.raises(GroupMaxSizeError):
        driver.consume_first("d", subscribed_names=names)
    driver.consume("a", epochs["a"], subscribed_names=frozenset({"t"}), owned=frozenset())
    driver.consume_first("d", subscribed_names=names)


def test_coordinators_of_one_broker_share_the_bound() -> None:
    memory = MemberMemory(SMALL)
    for number in range(5):
        memory.note(f"g{number}", 9_000)
    with pytest.raises(GroupMaxSizeError):
        memory.check_growth("g9", 9_000)
    memory.note("g0", 0)
    memory.check_growth("g9", 9_000)
    assert memory.used_bytes == 4 * 9_000


def test_what_was_stored_is_loaded_whatever_the_bounds_are_now() -> None:
    driver = Driver()
    (member_id,) = driver.stable(1, protocols=metadata(90_000))
    driver.settings = SMALL
    driver.restart()
    assert driver.state() == "Stable"
    driver.result(driver.heartbeat(member_id, driver.generation()))
    with pytest.raises(GroupMaxSizeError):
        driver.result(driver.join("another", protocols=metadata(1_000)))


@pytest.mark.parametrize("field", ["member_id", "instance_id", "client_id"])
def test_ids_without_end_are_refused(field: str) -> None:
    driver, said = Driver(), dict[str, Any]({field: "x" * 1001})
    with pytest.raises(InvalidGroupRequestError, match="1000 are allowed"):
        driver.result(driver.join(**said))


def test_a_group_id_without_end_makes_no_group() -> None:
    driver = Driver()
    with pytest.raises(InvalidGroupIdError):
        driver.result(driver.join("g" * 1001))
    with pytest.raises(InvalidGroupIdError):
        driver.result(driver.commit(("t", 0, 1), group_id="g" * 1001))
    assert driver.coordinator.list_groups() == []
