"""The judge of histories finds each mistake that is planted, and nothing where there is none."""

from __future__ import annotations

import random
from typing import Any

import pytest

from support.history import (
    Ack,
    Assign,
    Commit,
    Fail,
    Fault,
    History,
    Poll,
    Send,
    judge,
    read,
    value_of,
)

GROUP = "g"


def clean(seed: int = 1, count: int = 60):
    """Two producers, two consumers that take turns, and a log that has it all."""
    luck = random.Random(seed)
    history: list[Any] = []
    log, at_s = {0: {}, 1: {}}, 0.0
    numbers = {"a": 0, "b": 0}
    for _ in range(count):
        at_s += 1
        producer, partition = luck.choice("ab"), luck.randrange(2)
        number = numbers[producer]
        numbers[producer] += 1
        history.append(Send(at_s, producer, number, partition))
        if luck.random() < 0.1:
            history.append(Fail(at_s, producer, number, "timed out"))
            continue
        offset = len(log[partition])
        log[partition][offset] = value_of(producer, number)
        history.append(Ack(at_s, producer, number, partition, offset))
    for partition, at in log.items():
        position = 0
        for consumer in ("c", "d"):
            at_s += 1
            history.append(Assign(at_s, GROUP, consumer, partition))
            end = len(at) if consumer == "d" else len(at) // 2
            for offset in range(position, end):
                at_s += 1
                history.append(Poll(at_s, GROUP, consumer, partition, [(offset, at[offset])]))
            position = end
            history.append(Commit(at_s + 1, GROUP, consumer, partition, end, at_s))
            at_s += 1
    return history, log


def kinds(history, log):
    return {each.kind for each in judge(history, log)}


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_found_in_a_history_without_mistakes(seed):
    assert judge(*clean(seed)) == []


def test_a_value_that_was_acknowledged_and_is_not_there_is_lost():
    history, log = clean()
    history.append(Ack(999, "a", 10_000, 0, len(log[0])))
    assert kinds(history, log) == {"lost"}


def test_a_value_whose_fate_is_unknown_may_be_missing():
    history, log = clean()
    history += [Send(998, "a", 10_000, 0), Fail(999, "a", 10_000, "timed out")]
    assert judge(history, log) == []


def test_a_value_that_was_read_and_is_not_there_at_the_end_is_gone():
    history, log = clean()
    history.append(Poll(999, GROUP, "d", 0, [(len(log[0]), "a:10000")]))
    assert "gone" in kinds(history, log)


def test_two_values_at_one_offset_are_inconsistent_whoever_saw_them():
    history, log = clean()
    polled = next(each for each in history if isinstance(each, Poll))
    polled.messages[0] = (polled.messages[0][0], "b:77777")
    assert kinds(history, log) == {"inconsistent"}


def test_an_acknowledgement_with_the_offset_of_another_value_is_inconsistent():
    history, log = clean()
    first = next(each for each in history if isinstance(each, Ack))
    first.offset += 1
    assert "inconsistent" in kinds(history, log)


def test_an_acknowledgement_without_an_offset_is_looked_for_all_the_same():
    history, log = clean()
    acks = [each for each in history if isinstance(each, Ack)]
    acks[3].offset = acks[4].offset = None
    assert judge(history, log) == []
    history.append(Ack(999, "a", 10_000, 0, None))
    assert kinds(history, log) == {"lost"}


def test_a_value_at_two_offsets_is_a_duplicate():
    history, log = clean()
    log[0][len(log[0])] = log[0][len(log[0]) - 1]
    assert kinds(history, log) == {"duplicate"}


def test_values_of_one_producer_in_another_order_are_reordered():
    history, log = clean()
    one, two = [offset for offset, value in log[0].items() if value.startswith("a:")][:2]
    log[0][one], log[0][two] = log[0][two], log[0][one]
    assert "reordered" in kinds(history, log)


def test_a_message_that_a_consumer_went_past_is_skipped():
    history, log = clean()
    polls = [each for each in history if isinstance(each, Poll) and each.consumer == "c"]
    history.remove(polls[2])
    found = kinds(history, log)
    assert found == {"skipped", "passed over"}


def test_an_offset_that_comes_again_went_back():
    history, log = clean()
    polls = [each for each in history if isinstance(each, Poll) and each.consumer == "c"]
    history.insert(history.index(polls[2]) + 1, polls[2])
    assert kinds(history, log) == {"went back"}


def test_an_offset_may_come_again_after_another_assignment():
    history, log = clean()
    polls = [each for each in history if isinstance(each, Poll) and each.consumer == "c"]
    at = history.index(polls[2]) + 1
    history[at:at] = [Assign(polls[2].at_s, GROUP, "c", polls[2].partition), polls[2]]
    assert judge(history, log) == []


def test_an_assignment_that_begins_below_an_acknowledged_commit_has_forgotten_it():
    history, log = clean()
    second = next(each for each in history if isinstance(each, Assign) and each.consumer == "d")
    at = history.index(second) + 1
    early = Poll(second.at_s, GROUP, "d", second.partition, [(0, log[second.partition][0])])
    history.insert(at, early)
    assert "forgotten" in kinds(history, log)


def test_a_commit_that_is_acknowledged_after_the_assignment_may_be_missed():
    history, log = clean()
    second = next(each for each in history if isinstance(each, Assign) and each.consumer == "d")
    history = [each for each in history if not isinstance(each, Commit)]
    at = history.index(second) + 1
    part = second.partition
    history.insert(at, Commit(second.at_s + 0.5, GROUP, "c", part, 5, second.at_s - 0.5))
    history.insert(at + 1, Poll(second.at_s + 1, GROUP, "d", part, [(0, log[part][0])]))
    assert "forgotten" not in kinds(history, log)


def test_messages_below_a_commit_that_nobody_of_the_group_got_are_passed_over():
    history, log = clean()
    history = [each for each in history if not (isinstance(each, Poll) and each.consumer == "d")]
    assert kinds(history, log) == {"passed over"}


def test_a_history_is_read_back_from_its_file(tmp_path):
    operations, _ = clean()
    history = History(tmp_path / "history")
    for each in [*operations, Fault(1.0, "kill 2")]:
        history.add(each)
    history.close()
    with (tmp_path / "history").open("ab") as file:
        file.write(b'{"op":"se')
    assert read(tmp_path / "history") == history.operations
    assert history.count(Fault) == 1
