from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from hypothesis import given, strategies as st

from goqueue.groups.classic.member import ClassicMember
from goqueue.groups.consumer.protocol import (
    assigned_partitions,
    encode_assignment,
    subscribed_topics,
)
from goqueue.groups.coordinator import GroupCoordinator
from goqueue.groups.effects import Entry
from goqueue.groups.encoding import (
    ClassicGroupValue,
    CommittedOffset,
    ConsumerGroupValue,
    ConsumerMemberValue,
    GroupKey,
    MemberKey,
    OffsetKey,
    PendingOffsetKey,
    by_topic,
    decode,
    flatten,
    put,
    remove,
)
from goqueue.groups.reconciled.member import MemberState
from goqueue.groups.settings import GroupSettings
from goqueue.model.errors import CorruptGroupStateError, StorageError, UnsupportedFormatError
from goqueue.model.topic_partition import TopicPartition
from unit.groups.group_driver import encode_subscription

text = st.text(max_size=8)
maybe_text = st.none() | text
number = st.integers(-(2**31), 2**31 - 1)
big = st.integers(-(2**63), 2**63 - 1)
parts = st.frozensets(st.tuples(st.builds(UUID, int=st.integers(0, 9)), st.integers(0, 9))).map(
    by_topic
)
classic_member = st.builds(
    ClassicMember,
    text,
    maybe_text,
    text,
    text,
    number,
    number,
    st.lists(st.tuples(text, st.binary(max_size=8)), max_size=3).map(tuple),
    st.binary(max_size=8),
)
entries = st.one_of(
    st.tuples(
        st.builds(OffsetKey, text, text, number),
        st.builds(CommittedOffset, big, number, text, big, st.none() | big),
    ),
    st.tuples(
        st.builds(PendingOffsetKey, text, big, text, number),
        st.builds(CommittedOffset, big, number, text, big, st.none() | big),
    ),
    st.tuples(
        st.builds(GroupKey, text),
        st.builds(
            ClassicGroupValue,
            number,
            maybe_text,
            maybe_text,
            maybe_text,
            big,
            st.lists(classic_member, max_size=3).map(tuple),
        ),
    ),
    st.tuples(
        st.builds(GroupKey, text),
        st.builds(
            ConsumerGroupValue,
            number,
            number,
            text,
            st.lists(
                st.tuples(text, st.builds(UUID, int=st.integers(0, 2**128 - 1)), number), max_size=3
            ).map(tuple),
            big,
        ),
    ),
    st.tuples(
        st.builds(MemberKey, text, text),
        st.builds(
            ConsumerMemberValue,
            maybe_text,
            maybe_text,
            text,
            text,
            number,
            st.lists(text, max_size=3).map(tuple),
            text,
            maybe_text,
            number,
            number,
            st.sampled_from(list(MemberState)),
            parts,
            parts,
            parts,
        ),
    ),
)


def refusal(entry: Entry) -> str | None:
    """What the error says, if the entry is refused."""
    try:
        decode(entry)
    except StorageError as error:
        return str(error)
    return None


@given(entries)
def test_what_is_stored_reads_back_as_it_was(entry: tuple[object, object]) -> None:
    key, value = entry
    assert decode(put(key, value)) == (key, value)  # type: ignore[arg-type]
    assert decode(remove(key)) == (key, None)  # type: ignore[arg-type]


@given(st.data())
def test_equal_keys_have_equal_bytes_and_no_others_do(data: st.DataObject) -> None:
    (first, _), (second, _) = data.draw(entries), data.draw(entries)
    same = (type(first), first) == (type(second), second)
    assert (remove(first).key == remove(second).key) == same


@given(st.binary(max_size=40), st.none() | st.binary(max_size=40))
def test_any_bytes_are_read_or_refused_with_an_error_of_storage(
    key: bytes, value: bytes | None
) -> None:
    message = refusal(Entry(key, value))
    assert message is None or key.hex() in message or "Key(" in message


@given(entries, st.data())
def test_damaged_values_are_read_or_refused_and_never_crash(
    entry: tuple[object, object], data: st.DataObject
) -> None:
    key, value = put(*entry)  # type: ignore[arg-type]
    assert value is not None
    at = data.draw(st.integers(0, len(value) - 1))
    damaged = value[:at] + bytes([data.draw(st.integers(0, 255))]) + value[at + 1 :]
    message = refusal(Entry(key, damaged))
    assert message is None or "Key(" in message


class TestRefusals:
    def test_a_newer_version_of_a_value_is_named_by_its_key(self) -> None:
        entry = put(GroupKey("orders"), ClassicGroupValue(1, None, None, None, 0, ()))
        assert entry.value is not None
        with pytest.raises(UnsupportedFormatError, match="orders"):
            decode(Entry(entry.key, b"\x02" + entry.value[1:]))

    def test_a_value_that_does_not_decode_is_named_by_its_key(self) -> None:
        entry = put(OffsetKey("g", "t", 3), CommittedOffset(1, 1, "", 1))
        with pytest.raises(CorruptGroupStateError, match="partition=3"):
            decode(Entry(entry.key, b"\x01\xc1"))

    @pytest.mark.parametrize("key", [b"\x02\x01\x91\xa1g", b"\x01\x09\x91\xa1g"])
    def test_a_key_of_a_newer_version_or_kind_is_refused(self, key: bytes) -> None:
        with pytest.raises(UnsupportedFormatError, match=key.hex()):
            decode(Entry(key, None))

    def test_loading_stops_at_a_damaged_entry(self) -> None:
        coordinator = GroupCoordinator(GroupSettings(), str)
        with pytest.raises(CorruptGroupStateError):
            coordinator.load([Entry(b"\x01", None)])

    def test_a_member_in_a_state_that_does_not_exist_is_damage(self) -> None:
        state: Any = "dancing"
        value = ConsumerMemberValue(None, None, "", "", 0, (), "", None, 1, 0, state, (), (), ())
        coordinator = GroupCoordinator(GroupSettings(), str)
        with pytest.raises(CorruptGroupStateError, match="dancing"):
            coordinator.load([put(MemberKey("g", "m"), value)])


def test_partitions_are_grouped_by_topic_and_sorted() -> None:
    first, second = UUID(int=1), UUID(int=2)
    loose = frozenset({(second, 0), (first, 2), (first, 0)})
    assert by_topic(loose) == ((first, (0, 2)), (second, (0,)))
    assert flatten(by_topic(loose)) == loose


@given(st.frozensets(st.text(max_size=10), max_size=5))
def test_a_subscription_reads_back(topics: frozenset[str]) -> None:
    assert subscribed_topics(encode_subscription(topics)) == topics


@given(
    st.frozensets(
        st.builds(TopicPartition, st.text(max_size=10), st.integers(0, 2**31 - 1)), max_size=8
    )
)
def test_an_assignment_reads_back(partitions: frozenset[TopicPartition]) -> None:
    assert assigned_partitions(encode_assignment(partitions)) == partitions


@given(st.binary(max_size=60))
def test_metadata_of_any_kind_is_read_or_not_known(data: bytes) -> None:
    for answer in (subscribed_topics(data), assigned_partitions(data)):
        assert answer is None or isinstance(answer, frozenset)


def test_what_a_real_client_writes_is_understood() -> None:
    sticky = StickyPartitionAssignor.metadata({"t", "u"}).encode()
    assert subscribed_topics(sticky) == frozenset({"t", "u"})
    assignment = ConsumerProtocolMemberAssignment(0, [("t", [0, 2]), ("u", [1])], b"")
    assert assigned_partitions(assignment.encode()) == {("t", 0), ("t", 2), ("u", 1)}
