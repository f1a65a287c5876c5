"""What a follower fetches, and where two logs part."""

from __future__ import annotations

from hypothesis import given, strategies as st

from goqueue.cluster.following import (
    Append,
    Cut,
    FetchAnswer,
    FetchAsk,
    FetchProblem,
    FollowerState,
    Ignore,
    Restart,
    Wait,
    divergence,
)
from goqueue.storage.epochs import EpochStart, LeaderEpochs


def epochs(*starts: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(tuple(EpochStart(*each) for each in starts))


def epochs_of(log: list[int]) -> LeaderEpochs:
    """The epochs of a log, given as the epoch of each record."""
    known = LeaderEpochs()
    for offset, epoch in enumerate(log):
        if epoch > known.latest:
            known = known.with_epoch(epoch, offset)
    return known


def test_a_follower_asks_from_its_end_and_says_who_wrote_its_last_record() -> None:
    state = FollowerState(2, 7, 3)
    ask = state.plan(0.0, 5, 5, epochs((1, 0), (4, 5)))
    assert ask == FetchAsk(2, 7, 5, 1)
    assert state.plan(0.0, 5, 5, epochs((1, 0))) is None, "one fetch at a time"


def test_a_follower_asks_for_nothing_while_its_end_is_not_on_its_disk() -> None:
    state = FollowerState(2, 7, 0)
    assert state.plan(0.0, 5, 4, LeaderEpochs()) is None
    assert state.plan(0.0, 5, 5, LeaderEpochs()) == FetchAsk(2, 7, 5, -1)


def test_batches_are_appended_and_the_watermark_never_passes_the_own_end() -> None:
    state = FollowerState(2, 7, 0)
    ask = state.plan(0.0, 5, 5, epochs((1, 0)))
    assert ask is not None
    answer = FetchAnswer(high_watermark=9, next_offset=8)
    act = state.answered(0.0, ask, answer, log_start=0, end=5, epochs=epochs((1, 0)))
    assert act == Append(8, 0, has_batches=True)


def test_an_answer_to_an_older_question_is_ignored() -> None:
    state = FollowerState(2, 7, 0)
    ask = state.plan(0.0, 5, 5, LeaderEpochs())
    assert ask is not None
    answer = FetchAnswer(next_offset=8)
    other = FetchAsk(2, 7, 5, -1)
    assert state.answered(0.0, other, answer, log_start=0, end=5, epochs=LeaderEpochs()) == Ignore()
    assert state.answered(0.0, ask, answer, log_start=0, end=4, epochs=LeaderEpochs()) == Ignore()


def test_errors_are_waited_out_for_twice_as_long_each_time() -> None:
    state, now_s, waits = FollowerState(2, 7, 0), 0.0, []
    for _ in range(7):
        ask = state.plan(now_s, 0, 0, LeaderEpochs())
        assert ask is not None
        act = state.answered(
            now_s,
            ask,
            FetchAnswer(FetchProblem.NOT_LEADER),
            log_start=0,
            end=0,
            epochs=LeaderEpochs(),
        )
        assert isinstance(act, Wait)
        waits.append(round(act.until_s - now_s, 3))
        assert state.plan(act.until_s - 0.01, 0, 0, LeaderEpochs()) is None
        now_s = act.until_s
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_a_lost_answer_is_asked_for_again() -> None:
    state = FollowerState(2, 7, 0)
    ask = state.plan(0.0, 0, 0, LeaderEpochs())
    assert ask is not None
    assert isinstance(state.lost(1.0, ask), Wait)
    assert state.lost(1.0, ask) == Ignore()
    assert state.plan(2.0, 0, 0, LeaderEpochs()) is not None


def test_a_follower_below_the_leaders_start_begins_there() -> None:
    state = FollowerState(2, 7, 3)
    ask = state.plan(0.0, 5, 5, epochs((1, 0)))
    assert ask is not None
    assert divergence(ask, epochs((1, 0)), 9, 12) is FetchProblem.OUT_OF_RANGE
    act = state.answered(
        0.0,
        ask,
        FetchAnswer(FetchProblem.OUT_OF_RANGE, log_start=9),
        log_start=0,
        end=5,
        epochs=epochs((1, 0)),
    )
    assert act == Restart(9, is_below_hw=False)


def test_a_cut_below_the_high_watermark_says_so() -> None:
    state = FollowerState(2, 7, 5)
    ask = state.plan(0.0, 6, 6, epochs((1, 0)))
    assert ask is not None
    act = state.answered(
        0.0,
        ask,
        FetchAnswer(diverging=EpochStart(1, 4)),
        log_start=0,
        end=6,
        epochs=epochs((1, 0)),
    )
    assert act == Cut(4, is_below_hw=True)
    assert state.hw == 4


def test_an_empty_log_beyond_the_leaders_end_is_out_of_range() -> None:
    assert divergence(FetchAsk(1, 3, 8, -1), LeaderEpochs(), 0, 5) is FetchProblem.OUT_OF_RANGE
    assert divergence(FetchAsk(1, 3, 0, -1), LeaderEpochs(), 0, 5) is None


def test_a_log_that_is_older_than_everything_of_the_leader_begins_anew() -> None:
    newer = epochs((5, 10))
    assert divergence(FetchAsk(1, 6, 12, 3), newer, 10, 20) is FetchProblem.OUT_OF_RANGE
    at_the_start = FetchAsk(1, 6, 10, 3)
    assert divergence(at_the_start, newer, 10, 20) is FetchProblem.OUT_OF_RANGE
    assert divergence(at_the_start._replace(last_epoch=-1), newer, 10, 20) is None


steps = st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, 4)), max_size=12)


@given(steps)
def test_two_logs_agree_after_a_few_cuts_and_no_common_record_is_lost(
    history: list[tuple[bool, int, int]],
) -> None:
    """Logs are made as replication makes them: leaders append, followers copy a beginning.

    A record is told by its offset and epoch, so the twin cuts after the last one that both have.
    """
    replicas: list[list[int]] = [[], [], []]
    epoch, leading = 0, 0
    for is_led, number, length in history:
        if is_led:
            epoch, leading = epoch + 1, number
            replicas[number] = replicas[number] + [epoch] * length
        elif number != leading:
            replicas[number] = replicas[leading][:length]
    leader, follower = replicas[leading], replicas[(leading + 1) % 3]
    shared = 0
    for at, (theirs, mine) in enumerate(zip(leader, follower, strict=False)):
        if theirs == mine:
            shared = at + 1
    state = FollowerState(1, 99, 0)
    for _ in range(len(follower) + 2):
        ask = state.plan(0.0, len(follower), len(follower), epochs_of(follower))
        assert ask is not None
        found = divergence(ask, epochs_of(leader), 0, len(leader))
        if found is None:
            break
        answer = (
            FetchAnswer(found, log_start=0)
            if isinstance(found, FetchProblem)
            else FetchAnswer(diverging=found)
        )
        act = state.answered(
            0.0,
            ask,
            answer,
            log_start=0,
            end=len(follower),
            epochs=epochs_of(follower),
        )
        assert isinstance(act, Cut | Restart)
        to = act.to if isinstance(act, Cut) else act.at
        assert to < len(follower), "every cut makes the log shorter"
        follower = follower[:to]
    assert follower == leader[:shared]
