"""Which partitions count for a group, and from where."""

from __future__ import annotations

from hypothesis import given, strategies as st

from goqueue.model.lag import PartitionLag, counted_partitions
from goqueue.model.topic_partition import TopicPartition

OFFSET = st.integers(0, 100)
PLACE = st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 3))


@given(committed=st.none() | OFFSET, log_start=OFFSET, length=OFFSET)
def test_lag_is_what_a_group_can_still_read(
    committed: int | None, log_start: int, length: int
) -> None:
    stored = range(log_start, log_start + length)
    line = PartitionLag("t", 0, committed, stored.start, stored.stop)
    unread = [offset for offset in stored if committed is None or offset >= committed]
    assert line.lag == len(unread)
    assert line.uncommitted_lag == (len(unread) if committed is None else 0)
    assert line.lost == len(range(committed or 0, stored.start)) * (committed is not None)


@given(committed=st.frozensets(PLACE), assigned=st.frozensets(PLACE), is_subscriber=st.booleans())
def test_a_partition_counts_when_it_is_committed_or_assigned(
    committed: frozenset[TopicPartition],
    assigned: frozenset[TopicPartition],
    is_subscriber: bool,
) -> None:
    found = counted_partitions(committed, assigned, lambda _: 4, is_subscriber=is_subscriber)
    assert found == sorted(found)
    others = set(found) - committed - assigned
    if assigned or not is_subscriber:
        assert others == set()
    else:
        topics = {topic for topic, _ in committed}
        assert set(found) == {(topic, number) for topic in topics for number in range(4)}
