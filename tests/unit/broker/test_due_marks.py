"""Which partitions a maintenance pass looks at: those that changed and those that are due."""

from __future__ import annotations

from hypothesis import given, strategies as st

from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.due_marks import DueMarks, MaintenanceMarks

A, B, C = (TopicPartition("t", number) for number in range(3))


def test_a_partition_is_looked_at_once_however_often_it_changed() -> None:
    marks = DueMarks()
    marks.touch(A)
    marks.touch(B)
    marks.touch(A)
    assert list(marks.take(0)) == [A, B]
    assert list(marks.take(0)) == []


def test_a_time_is_replaced_and_taken_away() -> None:
    marks = DueMarks()
    marks.look_at(A, 100)
    marks.look_at(A, 200)
    marks.look_at(B, 100)
    marks.look_at(B, None)
    assert list(marks.take(150)) == []
    assert list(marks.take(200)) == [A]
    assert len(marks) == 0


def test_what_is_marked_during_a_pass_is_for_the_next_one() -> None:
    marks = DueMarks()
    marks.touch(A)
    for each in marks.take(0):
        marks.touch(each)
    assert list(marks.take(0)) == [A]


def test_an_interrupted_pass_leaves_the_marks_that_it_did_not_reach() -> None:
    marks = DueMarks()
    for each in (A, B, C):
        marks.touch(each)
    assert next(marks.take(0)) == A
    marks.forget(B)
    assert list(marks.take(0)) == [C]


def test_a_partition_that_is_gone_has_no_marks_in_any_pass() -> None:
    marks = MaintenanceMarks()
    marks.touch(A)
    marks.failing.add(A)
    marks.retention.look_at(A, 5)
    marks.forget(A)
    for each in (marks.retention, marks.compaction, marks.checkpoints):
        assert list(each.take(10)) == []
    assert not marks.failing


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("touch"), st.integers(0, 4)),
            st.tuples(st.just("look_at"), st.integers(0, 4), st.none() | st.integers(0, 50)),
            st.tuples(st.just("forget"), st.integers(0, 4)),
            st.tuples(st.just("take"), st.integers(0, 50)),
        ),
        max_size=60,
    )
)
def test_marks_agree_with_a_set_and_a_dictionary(steps: list[tuple[object, ...]]) -> None:
    marks = DueMarks()
    changed: set[int] = set()
    dues: dict[int, int] = {}
    for name, number, *rest in steps:
        assert isinstance(number, int)
        each = TopicPartition("t", number)
        if name == "touch":
            marks.touch(each)
            changed.add(number)
        elif name == "look_at":
            (due,) = rest
            assert due is None or isinstance(due, int)
            marks.look_at(each, due)
            dues.pop(number, None)
            if due is not None:
                dues[number] = due
        elif name == "forget":
            marks.forget(each)
            changed.discard(number)
            dues.pop(number, None)
        else:
            expected = changed | {key for key, due in dues.items() if due <= number}
            taken = [found.partition for found in marks.take(number)]
            assert sorted(taken) == sorted(expected)
            changed.clear()
            dues = {key: due for key, due in dues.items() if due > number}
    assert len(marks) == len(changed | dues.keys())
