"""Batches of transactions that are decided at once, held against a twin."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from goqueue.model.errors import (
    FencedTransactionError,
    InvalidTransactionRequestError,
    InvalidTransactionStateError,
    TooManyTransactionalIdsError,
    TransactionError,
    UnknownProducerError,
)
from goqueue.model.limits import MAX_SERIES_TRANSACTIONS
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.markers import Marker
from goqueue.transactions.atomic_commit import SeriesCoordinator
from goqueue.transactions.encoding import StateRecord
from goqueue.transactions.messages import Effects, Identity, InitRequest
from goqueue.transactions.series import Member, TogetherRequest
from goqueue.transactions.settings import TransactionSettings
from support.effort import examples

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
TIMEOUT_MS = 60_000
KEEP_MS = 10_000_000


class Shell:
    """What stands around a coordinator: a log of entries, fresh ids, a clock, and partitions."""

    def __init__(self, **options):
        self.settings = TransactionSettings(**options)
        self.log: dict[bytes, bytes] = {}
        self.now_ms = 1_000_000
        self.producer_ids = itertools.count(100)
        self.unfinished = []
        self.ended: dict[Identity, Marker] = {}
        """How the transactions ended whose markers were written, by who began them."""
        self.core = self.loaded()

    def loaded(self):
        core = SeriesCoordinator(self.settings, {}, lambda now_ms: f"txn-{now_ms}")
        core.load(StateRecord(key, value) for key, value in self.log.items())
        core.resume(self.now_ms)
        core.check_invariants()
        return core

    def do(self, event):
        """Let the coordinator see an event and store what it says; returns what it returned."""
        out = Effects()
        result = event(self.core, out)
        for key, value in out.persist:
            if value is None:
                self.log.pop(key, None)
            else:
                self.log[key] = value
        self.unfinished += out.endings
        self.core.check_invariants()
        return result

    def begin(self, name, *parts):
        request = InitRequest(transactional_id=name, timeout_ms=TIMEOUT_MS)
        fresh = next(self.producer_ids)
        identity = self.do(lambda core, out: core.init_producer(request, fresh, self.now_ms, out))
        if identity is None:
            self.carry_out()
            return self.begin(name, *parts)
        parts = parts or (P0,)
        self.do(lambda core, out: core.add_partitions(name, identity, parts, self.now_ms, out))
        return Member(name, identity)

    def request(self, number, members=(), series="job", keep_ms=KEEP_MS):
        return TogetherRequest(
            series=series, number=number, members=tuple(members), keep_ms=keep_ms
        )

    def commit(self, *args, **options):
        request = self.request(*args, **options)
        return self.do(lambda core, out: core.commit_together(request, self.now_ms, out))

    def abort(self, *args, **options):
        request = self.request(*args, **options)
        self.do(lambda core, out: core.abort_together(request, self.now_ms, out))

    def tick(self):
        self.do(lambda core, out: core.tick(self.now_ms, out))

    def carry_out(self):
        done, self.unfinished = self.unfinished, []
        for ending in done:
            self.ended[ending.identity.producer_id] = ending.marker
            self.do(lambda core, out, ending=ending: core.completed(ending, self.now_ms, out))

    def restart(self):
        self.core = self.loaded()
        self.unfinished = self.core.unfinished()

    def how(self, member):
        """How a member's transaction ended; None while it has not."""
        return self.ended.get(member.identity.producer_id)


def test_a_batch_is_committed_once_and_its_losers_are_aborted():
    shell = Shell()
    winners = [shell.begin("job::0-0", P0), shell.begin("job::0-1", P0, P1)]
    loser = shell.begin("job::0-0-again", P1)
    assert shell.commit(0, winners) is True
    shell.carry_out()
    assert [shell.how(each) for each in winners] == [Marker.COMMIT, Marker.COMMIT]
    assert shell.how(loser) is Marker.ABORT


def test_a_batch_that_comes_again_is_aborted():
    shell = Shell()
    shell.commit(3, [shell.begin("job::a")])
    again, older = shell.begin("job::b"), shell.begin("job::c")
    assert shell.commit(3, [again]) is False
    assert shell.commit(2, [older]) is False
    shell.carry_out()
    assert shell.how(again) is shell.how(older) is Marker.ABORT


def test_an_answer_that_got_lost_is_given_again():
    shell = Shell()
    member = shell.begin("job::a")
    assert shell.commit(0, [member]) is True
    assert shell.commit(0, [member]) is False
    shell.carry_out()
    assert shell.commit(0, [member]) is False
    shell.carry_out()
    assert shell.how(member) is Marker.COMMIT


def test_an_old_driver_does_not_disturb_a_batch_that_is_under_way():
    shell = Shell()
    shell.commit(5, [])
    under_way = shell.begin("job::6-0")
    assert shell.commit(5, []) is False
    shell.abort(5)
    assert shell.commit(6, [under_way]) is True


def test_one_bad_member_keeps_the_whole_batch_back():
    shell = Shell()
    good, late = shell.begin("job::good"), shell.begin("job::late")
    shell.now_ms += TIMEOUT_MS - 1
    fresh = shell.begin("job::fresh")
    shell.now_ms += 1
    shell.tick()  # good and late took too long
    with pytest.raises(FencedTransactionError, match="took too long"):
        shell.commit(0, [fresh, good, late])
    assert shell.how(fresh) is None
    with pytest.raises(UnknownProducerError):
        shell.commit(0, [fresh, Member("job::nobody", Identity(7, 0))])
    shell.carry_out()
    assert shell.commit(0, [fresh]) is True
    shell.carry_out()
    with pytest.raises(InvalidTransactionStateError, match="nothing to commit"):
        shell.commit(1, [fresh])


def test_a_batch_that_is_given_up_is_aborted_as_a_whole():
    shell = Shell()
    members = [shell.begin("job::a"), shell.begin("job::b")]
    other = shell.begin("other::a")
    shell.abort(0, members[:1])
    shell.carry_out()
    assert [shell.how(each) for each in members] == [Marker.ABORT, Marker.ABORT]
    assert shell.how(other) is None
    assert shell.commit(0, [shell.begin("job::c")]) is True


def test_ids_do_not_pile_up_from_batch_to_batch():
    shell = Shell()
    for number in range(50):
        members = [shell.begin(f"job::{number}-{task}") for task in range(3)]
        shell.commit(number, members)
        shell.carry_out()
        assert len(shell.core) <= 6
    shell.now_ms += shell.settings.member_expiration_ms
    shell.tick()
    assert len(shell.core) == 0
    assert shell.commit(49, []) is False
    shell.now_ms += KEEP_MS + shell.settings.id_check_interval_ms
    shell.tick()
    assert not shell.core.series
    assert not shell.log


def test_a_batch_needs_nothing_but_its_log_after_a_kill():
    shell = Shell()
    members = [shell.begin("job::a", P0), shell.begin("job::b", P1)]
    shell.commit(0, members)
    shell.restart()
    shell.carry_out()
    assert [shell.how(each) for each in members] == [Marker.COMMIT, Marker.COMMIT]
    shell.log = dict(shell.core.dump())  # a snapshot says the same
    shell.restart()
    assert shell.commit(0, []) is False
    assert shell.commit(1, []) is True


@pytest.mark.parametrize(
    ("request_of", "message"),
    [
        (lambda one: {"series": ""}, "cannot name a series"),
        (lambda one: {"series": "a::b"}, "cannot name a series"),
        (lambda one: {"number": -1}, "count from 0"),
        (lambda one: {"keep_ms": 0}, "cannot be kept"),
        (lambda one: {"keep_ms": 1 << 60}, "cannot be kept"),
        (lambda one: {"members": [one, one]}, "named twice"),
        (lambda one: {"members": [Member("jobs::a", one.identity)]}, "is no transaction of"),
        (lambda one: {"members": [Member("job", one.identity)]}, "is no transaction of"),
        (
            lambda one: {
                "members": [
                    Member(f"job::{n}", one.identity) for n in range(MAX_SERIES_TRANSACTIONS + 1)
                ]
            },
            f"{MAX_SERIES_TRANSACTIONS} are allowed",
        ),
    ],
)
def test_requests_that_make_no_sense_are_refused(request_of, message):
    shell = Shell()
    one = shell.begin("job::a")
    with pytest.raises(InvalidTransactionRequestError, match=message):
        shell.commit(**{"number": 0, "members": [one], **request_of(one)})
    assert shell.commit(0, [one]) is True


def test_series_are_bounded_as_ids_are():
    shell = Shell(max_ids=2)
    shell.commit(0, series="a")
    shell.commit(0, series="b")
    with pytest.raises(TooManyTransactionalIdsError, match="2 series"):
        shell.commit(0, series="c")
    assert shell.commit(1, series="a") is True


class SeriesMachine(RuleBasedStateMachine):
    """Drivers and tasks that die, come again and race; the twin only counts what was told."""

    @initialize()
    def begin(self):
        self.shell = Shell()
        self.names = itertools.count()
        self.open: dict[Member, int] = {}
        """Members of batches whose commit has not been asked for, by their batch."""
        self.committed: dict[int, tuple[Member, ...]] = {}
        """What counts, by batch: once there, it never changes."""
        self.last = -1

    @rule(batch=st.integers(0, 8), parts=st.sampled_from([(P0,), (P0, P1)]))
    def a_task_writes(self, batch, parts):
        self.open[self.shell.begin(f"job::{batch}-{next(self.names)}", *parts)] = batch

    @rule(batch=st.integers(0, 8), data=st.data())
    def the_driver_commits(self, batch, data):
        mine = [member for member, number in self.open.items() if number == batch]
        chosen = tuple(data.draw(st.lists(st.sampled_from(mine), unique=True)) if mine else ())
        try:
            is_new = self.shell.commit(batch, chosen)
        except TransactionError:
            # Something was aborted meanwhile: then nothing of the batch may count.
            assert batch > self.last
            assert any(
                self.shell.how(each) is Marker.ABORT or each in self.dead() for each in chosen
            )
            return
        assert is_new is (batch > self.last)
        if is_new:
            self.committed[batch] = chosen
            self.last = batch

    def dead(self):
        core = self.shell.core
        return {
            member
            for member in self.open
            if member.transactional_id not in core.by_id
            or core.by_id[member.transactional_id].current != member.identity
        }

    @rule(batch=st.integers(0, 8))
    def the_driver_gives_up(self, batch):
        self.shell.abort(batch)

    @rule()
    def markers_are_written(self):
        self.shell.carry_out()

    @rule(for_ms=st.integers(1, TIMEOUT_MS))
    def time_passes(self, for_ms):
        self.shell.now_ms += for_ms
        self.shell.tick()

    @rule()
    def the_broker_is_killed(self):
        self.shell.restart()

    @invariant()
    def every_batch_counts_once_and_as_a_whole(self):
        if not hasattr(self, "shell"):
            return
        winners = {each for members in self.committed.values() for each in members}
        for member in self.open:
            how = self.shell.how(member)
            if how is not None:
                assert (how is Marker.COMMIT) is (member in winners)

    def teardown(self):
        if not hasattr(self, "shell"):
            return
        self.shell.restart()
        self.shell.now_ms += TIMEOUT_MS
        self.shell.tick()
        self.shell.carry_out()
        self.every_batch_counts_once_and_as_a_whole()
        assert all(self.shell.how(member) is not None for member in self.open)


TestSeriesMachine = SeriesMachine.TestCase
TestSeriesMachine.settings = settings(max_examples=examples(60), stateful_step_count=40)
