"""The judges find each mistake that is planted, and nothing where there is none."""

from __future__ import annotations

import random

import pytest

from support.oracles import delays, schemas, transactions
from support.oracles.delays import Came, Delayed
from support.oracles.queues import ACK, REJECT, QueueHistory, Refused
from support.oracles.schemas import Read, Registered
from support.oracles.transactions import Output, Stored, Transformed


def kinds(findings):
    return {each.kind for each in findings}


# --- Transactions --------------------------------------------------------------------------------


def transformed(seed: int = 1) -> Transformed:
    """Forty inputs in two partitions, transformed by transactions over both."""
    luck = random.Random(seed)
    source, target, offsets, at = [], [], [0, 0], [0, 0]
    for number in range(40):
        partition = luck.randrange(2)
        source.append(Stored(partition, offsets[partition], str(number)))
        offsets[partition] += 1
    for first in range(0, 40, 4):
        for each in source[first : first + 4]:
            name, place = f"w/{first}", at[each.partition]
            target.append(Output(each.partition, place, each.value, name, 4))
            at[each.partition] += 1
        at = [each + 1 for each in at]  # the markers
    committed = {number: end for number, end in enumerate(offsets) if end}
    acked = {each.value for each in source if luck.random() < 0.9}
    return Transformed(acked, source, target, target[:20], committed)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_found_where_every_input_has_its_output(seed):
    assert transactions.judge(transformed(seed)) == []


def _without_input(run):
    run.acked.add("100")


def _without_output(run):
    run.target.pop()


def _twice(run):
    *_, last = run.target
    run.target.append(last._replace(offset=last.offset + 5, transaction="w/again", size=1))


def _of_nothing(run):
    run.target.append(Output(0, 900, "100", "w/other", 1))


def _aborted(run):
    run.target.append(Output(0, 900, "0", "w/other", 1, is_aborted=True))


def _aborted_meanwhile(run):
    run.seen.append(Output(0, 900, "0", "w/other", 1, is_aborted=True))


def _swapped(run):
    at = [number for number, each in enumerate(run.target) if each.partition == 0][:2]
    one, other = (run.target[each] for each in at)
    run.target[at[0]] = other._replace(offset=one.offset)
    run.target[at[1]] = one._replace(offset=other.offset)
    run.seen.clear()


def _gone(run):
    run.seen.append(Output(1, 900, "0", "w/0", 4))


def _committed_too_far(run):
    run.committed[0] += 1


def _not_committed(run):
    del run.committed[1]


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (_without_input, {"lost"}),
        (_without_output, {"no output", "torn"}),
        (_twice, {"doubled"}),
        (_of_nothing, {"invented"}),
        (_aborted, {"aborted read"}),
        (_aborted_meanwhile, {"aborted read"}),
        (_swapped, {"reordered"}),
        (_gone, {"gone"}),
        (_committed_too_far, {"offsets"}),
        (_not_committed, {"offsets"}),
    ],
)
def test_what_is_wrong_with_transactions_is_found(plant, found):
    run = transformed()
    plant(run)
    assert kinds(transactions.judge(run)) == found


# --- Queue groups --------------------------------------------------------------------------------


def worked() -> QueueHistory:
    """Ten messages: most are acknowledged, one after a failure, one rejected, one in doubt."""
    history = QueueHistory()
    for number in range(10):
        value = str(number)
        history.published.add(value)
        history.delivered(value, 1)
        if number == 3:
            history.settled(value, 1, "nack")
            history.delivered(value, 2)
            history.settled(value, 2, ACK)
        elif number == 4:
            history.settled(value, 1, REJECT)
        elif number == 5:
            history.in_doubt(value)
        elif number == 6:
            history.refused(value, "expired")
            history.delivered(value, 3)
            history.settled(value, 3)
        else:
            history.settled(value, 1)
    return history


def test_nothing_is_found_where_a_group_has_done_its_work():
    assert worked().judge(["4"]) == []
    late = worked()
    late.delivered("6", 2)  # handed out before the one that was acknowledged, and seen after it
    late.delivered("5", 2)  # its acknowledgement was not stored after all
    late.settled("5", 2)
    assert late.judge(["4"]) == []


def test_a_message_that_never_came_or_was_only_refused_is_lost():
    history = worked()
    history.published.add("never")
    assert kinds(history.judge()) == {"lost"}
    history = worked()
    history.published.add("nacked")
    history.delivered("nacked", 1)
    history.in_doubt("nacked", "nack")
    assert kinds(history.judge()) == {"lost"}
    history = worked()
    history.published.add("refused")
    history.delivered("refused", 1)
    history.refused("refused", "expired")
    assert kinds(history.judge()) == {"lost"}


@pytest.mark.parametrize("value", ["0", "4"])
def test_a_delivery_after_the_last_word_is_found(value):
    history = worked()
    history.delivered(value, 2)
    assert kinds(history.judge()) == {"redelivered"}


def test_a_delivery_that_was_not_counted_is_found():
    history = worked()
    history.delivered("3", 2)
    assert kinds(history.judge()) == {"count"}


def test_a_receipt_that_was_refused_in_time_is_found():
    history = worked()
    history.refused_in_time(Refused("6", 1, "unknown", was_tried=False))
    assert kinds(history.judge()) == {"refused"}


def test_a_receipt_whose_first_answer_was_lost_may_be_refused_unless_its_message_came():
    history = worked()
    history.refused_in_time(Refused("5", 1, "unknown", was_tried=True))
    assert history.judge() == []
    history.delivered("5", 2)
    assert kinds(history.judge()) == {"refused"}


@pytest.mark.parametrize("letters", [[], ["4", "4"], ["4", "0"]])
def test_dead_letters_that_are_missing_doubled_or_wrong_are_found(letters):
    assert kinds(worked().judge(letters)) == {"dead letter"}


def test_a_rejection_in_doubt_may_have_its_letter_or_not():
    history = worked()
    history.in_doubt("5", REJECT)
    assert history.judge(["4"]) == history.judge(["4", "5"]) == []
    assert kinds(history.judge(["4", "5", "5"])) == {"dead letter"}


def test_what_the_broker_has_left_is_found():
    assert kinds(worked().judge(["4"], {"in_flight": 1})) == {"left"}


# --- Delayed messages ----------------------------------------------------------------------------


def waited() -> Delayed:
    """Ten messages due from 1000 on, of which one was cancelled, one maybe, one never stored."""
    due_ms = {str(number): 1000 + number for number in range(10)} | {"now": 0}
    acked = due_ms.keys() - {"9"}
    came = [
        Came(value, due, due + 1) for value, due in due_ms.items() if value not in {"3", "4", "9"}
    ]
    return Delayed(due_ms, set(acked), {"3"}, {"4"}, came, came[:4])


def test_nothing_is_found_where_each_message_came_when_it_was_due():
    assert delays.judge(waited()) == []
    run = waited()
    run.came.append(Came("4", 1004, 1004))
    run.came.append(Came("9", 0, 1009))
    assert delays.judge(run) == []


@pytest.mark.parametrize(
    ("came", "found"),
    [
        (Came("1", 1001, 1001), "doubled"),
        (Came("3", 1003, 1003), "cancelled"),
        (Came("100", 2000, 2000), "invented"),
        (Came("9", 1008, 2000), "early"),
        (Came("9", 0, 1008), "early"),
    ],
)
def test_a_message_that_should_not_have_come_so_is_found(came, found):
    run = waited()
    run.came.append(came)
    assert kinds(delays.judge(run)) == {found}


def test_a_message_that_was_seen_early_or_never_came_is_found():
    run = waited()
    run.seen.append(Came("5", 0, 1004))
    assert kinds(delays.judge(run)) == {"early"}
    run = waited()
    del run.came[2]
    assert kinds(delays.judge(run)) == {"lost"}


# --- Schemas -------------------------------------------------------------------------------------


def registry():
    """Two subjects, one schema of them in both, and three nodes that agree."""
    registered = [
        Registered("a", "A1", 1),
        Registered("a", "A2", 2),
        Registered("b", "A1", 1),
        Registered("a", "A1", 1),
    ]
    reads = [Read(node, 1 + node % 2, f"A{1 + node % 2}") for node in (1, 2, 3)]
    listed = {node: {"a": [(1, 1, "A1"), (2, 2, "A2")], "b": [(1, 1, "A1")]} for node in (1, 2, 3)}
    return registered, reads, listed


def test_nothing_is_found_in_a_registry_that_agrees_with_its_clients():
    assert schemas.judge(*registry()) == []
    registered, reads, listed = registry()
    for versions in listed.values():
        versions["a"].append((3, 3, "A3"))  # its answer was lost
    assert schemas.judge(registered, reads, listed) == []


def _both(listed, versions):
    for each in listed.values():
        each["a"] = versions


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (lambda told, _reads, _listed: told.append(Registered("b", "A1", 2)), "two ids"),
        (lambda _told, reads, _listed: reads.append(Read(1, 2, "A1")), "inconsistent"),
        (lambda _told, reads, _listed: reads.append(Read(2, 1, None)), "unreadable"),
        (lambda told, _reads, _listed: told.append(Registered("b", "A2", 2)), "lost"),
        (lambda _told, _reads, listed: listed[2]["b"].append((2, 2, "A2")), "differing"),
        (
            lambda _told, _reads, listed: _both(listed, [(1, 1, "A1"), (2, 2, "A2"), (3, 1, "A1")]),
            "doubled",
        ),
        (lambda _told, _reads, listed: _both(listed, [(1, 1, "A1"), (3, 2, "A2")]), "gap"),
    ],
)
def test_what_is_wrong_with_a_registry_is_found(plant, found):
    registered, reads, listed = registry()
    plant(registered, reads, listed)
    assert found in kinds(schemas.judge(registered, reads, listed))
