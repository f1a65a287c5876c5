"""The transaction coordinator, held against a twin that remembers everything that ever happened."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.model.errors import (
    ConcurrentTransactionsError,
    FencedProducerError,
    FencedTransactionError,
    InvalidTransactionRequestError,
    InvalidTransactionStateError,
    InvalidTransactionTimeoutError,
    InvariantError,
    TooManyTransactionalIdsError,
    TransactionError,
    TransactionOpenError,
    UnknownProducerError,
    UnknownTransactionalIdError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.markers import Marker
from goqueue.transactions.coordinator import TransactionCoordinator
from goqueue.transactions.encoding import StateRecord
from goqueue.transactions.messages import (
    Effects,
    Ending,
    EndRequest,
    Identity,
    InitRequest,
    TransactionFilter,
)
from goqueue.transactions.registry import verify
from goqueue.transactions.settings import TransactionSettings
from goqueue.transactions.states import MOVES, TransactionState
from goqueue.transactions.transaction import LAST_EPOCH, Transaction
from support.effort import examples

DAY_MS = 24 * 3600 * 1000
TIMEOUT_MS = 60_000
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
IDS = ("a", "b")


class Shell:
    """What stands around a coordinator: a log of entries, fresh ids, and a clock."""

    def __init__(self, **options):
        self.settings = TransactionSettings(**options)
        self.log: dict[bytes, bytes] = {}
        self.now_ms = 1_000_000
        self.producer_ids = itertools.count(100)
        self.unfinished: list[Ending] = []
        self.core = self.loaded()

    def loaded(self) -> TransactionCoordinator:
        self.by_producer: dict[int, Transaction] = {}
        numbers = itertools.count(1)
        core = TransactionCoordinator(
            self.settings, self.by_producer, lambda now_ms: f"txn-{now_ms}-{next(numbers)}"
        )
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
                del self.log[key]
            else:
                self.log[key] = value
        self.unfinished += out.endings
        return result

    def init(self, name="a", expected=None, timeout_ms=TIMEOUT_MS, session_timeout_ms=None):
        request = InitRequest(
            transactional_id=name,
            timeout_ms=timeout_ms,
            expected=expected,
            session_timeout_ms=session_timeout_ms,
        )
        fresh = next(self.producer_ids)
        return self.do(lambda core, out: core.init_producer(request, fresh, self.now_ms, out))

    def add(self, name, identity, *parts):
        self.do(lambda core, out: core.add_partitions(name, identity, parts, self.now_ms, out))

    def end(self, name, identity, marker):
        self.do(lambda core, out: core.end(name, identity, marker, self.now_ms, out))

    def end_and_renew(self, name, identity, marker):
        request, fresh = EndRequest(name, identity, marker), next(self.producer_ids)
        return self.do(lambda core, out: core.end_and_renew(request, fresh, self.now_ms, out))

    def tick(self):
        self.do(lambda core, out: core.tick(self.now_ms, out))

    def carry_out(self) -> list[Ending]:
        done, self.unfinished = self.unfinished, []
        for ending in done:
            self.do(lambda core, out, ending=ending: core.completed(ending, self.now_ms, out))
        return done

    def restart(self):
        self.core = self.loaded()
        self.unfinished = self.core.unfinished()

    def state(self, name="a"):
        return self.core.describe(name).state


@dataclass
class Life:
    """Everything that happened to one id, in the twin's own words."""

    owner: Identity | None = None
    parts: set[TopicPartition] = field(default_factory=set)
    open_since: int | None = None
    decided: Marker | None = None
    """Of the transaction that is being ended."""
    last_end: Marker | None = None
    """How the last one of this owner ended."""
    before: Identity | None = None
    """Who the owner was until the end of the last one gave it its epoch."""


class CoordinatorMachine(RuleBasedStateMachine):
    """Instances come and go, some of them zombies; time passes, and the broker dies."""

    @initialize()
    def begin(self):
        self.shell = Shell()
        self.lives = {name: Life() for name in IDS}
        self.ever: list[Identity] = [Identity(1, 0)]

    ids = st.sampled_from(IDS)
    picks = st.integers(0, 40)

    def _pick(self, name, pick):
        """As a rule the owner, now and then anyone who ever was."""
        owner = self.lives[name].owner
        return owner if owner is not None and pick > 15 else self.ever[pick % len(self.ever)]

    def _expected(self, name, identity):
        """What must happen to an id's request from this producer: None lets it through."""
        owner = self.lives[name].owner
        if owner is None or owner.producer_id != identity.producer_id:
            return UnknownProducerError
        return None if owner == identity else FencedTransactionError

    def _attempt(self, event, error):
        if error is not None:
            before = dict(self.shell.log)
            with pytest.raises(error):
                event()
            assert self.shell.log == before
            return False
        event()
        return True

    @rule(name=ids)
    def a_new_instance_starts(self, name):
        life = self.lives[name]
        if life.decided is not None:
            self._attempt(lambda: self.shell.init(name), ConcurrentTransactionsError)
            return
        given = self.shell.init(name)
        if life.open_since is not None:
            assert given is None
            self._fence(life)
            return
        assert given not in self.ever
        self.lives[name] = Life(owner=given)
        self.ever.append(given)

    def _fence(self, life):
        """The broker aborts, and the producer is nobody from now on."""
        self._next_epoch(life)
        life.before = None
        life.decided = Marker.ABORT

    def _next_epoch(self, life):
        life.before = life.owner
        life.owner = Identity(life.owner.producer_id, life.owner.epoch + 1)
        self.ever.append(life.owner)

    @rule(name=ids, pick=picks, parts=st.sets(st.sampled_from([P0, P1]), min_size=1))
    def add_partitions(self, name, pick, parts):
        identity, life = self._pick(name, pick), self.lives[name]
        error = self._expected(name, identity)
        if error is None and life.decided is not None:
            error = ConcurrentTransactionsError
        if self._attempt(lambda: self.shell.add(name, identity, *parts), error):
            if life.open_since is None:
                life.open_since, life.parts = self.shell.now_ms, set()
                life.before = None
            life.parts |= parts

    @rule(name=ids, pick=picks, marker=st.sampled_from(Marker))
    def end(self, name, pick, marker):
        identity, life = self._pick(name, pick), self.lives[name]
        error = self._expected(name, identity)
        if error is None and life.decided is not None:
            same = life.decided is marker
            error = ConcurrentTransactionsError if same else InvalidTransactionStateError
        elif error is None and life.open_since is None and life.last_end is not marker:
            error = InvalidTransactionStateError
        taken = self._attempt(lambda: self.shell.end(name, identity, marker), error)
        if taken and life.open_since is not None:
            life.decided = marker

    @rule(name=ids, pick=picks, marker=st.sampled_from(Marker))
    def end_and_renew(self, name, pick, marker):
        identity, life = self._pick(name, pick), self.lives[name]
        if pick % 5 == 0 and life.before is not None:
            identity = life.before
        if identity == life.before and (life.decided is not None or life.last_end is not None):
            self._end_again(name, identity, marker)
            return
        error = self._expected(name, identity)
        if error is None and life.decided is not None:
            error = ConcurrentTransactionsError
        elif error is None and life.open_since is None and marker is Marker.COMMIT:
            error = InvalidTransactionStateError
        if self._attempt(lambda: self.shell.end_and_renew(name, identity, marker), error):
            self._next_epoch(life)
            life.decided = marker

    def _end_again(self, name, identity, marker):
        life = self.lives[name]
        error: type[Exception] | None = None
        if (life.decided if life.decided is not None else life.last_end) is not marker:
            error = InvalidTransactionStateError
        elif life.decided is not None:
            error = ConcurrentTransactionsError
        given = []
        again = self._attempt(
            lambda: given.append(self.shell.end_and_renew(name, identity, marker)), error
        )
        assert given == ([life.owner] if again else [])

    @rule()
    def markers_are_written(self):
        done = {ending.transactional_id: ending for ending in self.shell.carry_out()}
        for name, life in self.lives.items():
            assert (name in done) == (life.decided is not None)
            if life.decided is not None:
                assert done[name] == Ending(name, life.owner, life.decided, frozenset(life.parts))
                life.last_end, life.decided = life.decided, None
                life.open_since, life.parts = None, set()

    @rule(ms=st.integers(1, TIMEOUT_MS))
    def time_passes(self, ms):
        self.shell.now_ms += ms
        self.shell.tick()
        for life in self.lives.values():
            late = (
                life.open_since is not None
                and life.decided is None
                and life.open_since + TIMEOUT_MS <= self.shell.now_ms
            )
            if late:
                self._fence(life)

    @rule()
    def the_broker_dies(self):
        before = {(e.transactional_id, e.marker) for e in self.shell.unfinished}
        self.shell.restart()
        assert {(e.transactional_id, e.marker) for e in self.shell.unfinished} == before

    @rule(name=ids, pick=picks, part=st.sampled_from([P0, P1]))
    def write(self, name, pick, part):
        identity, life = self._pick(name, pick), self.lives[name]
        owners = {each.owner.producer_id: each for each in self.lives.values() if each.owner}
        life = owners.get(identity.producer_id)
        may = (
            life is not None
            and life.owner == identity
            and life.open_since is not None
            and life.decided is None
            and part in life.parts
        )
        try:
            verify(
                self.shell.by_producer,
                identity.producer_id,
                identity.epoch,
                part,
                self.shell.now_ms,
            )
            assert may
        except (TransactionError, FencedProducerError):
            assert not may

    @precondition(lambda self: hasattr(self, "shell"))
    @invariant()
    def what_is_stored_is_all_there_is(self):
        core = self.shell.core
        core.check_invariants()
        assert dict(core.dump()) == self.shell.log
        for name, life in self.lives.items():
            if life.owner is not None:
                found = core.describe(name)
                assert (found.producer_id, found.epoch) == life.owner
                assert set(found.partitions) == life.parts


CoordinatorMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40)
TestCoordinator = CoordinatorMachine.TestCase


# --- Identities -----------------------------------------------------------------------------------


def test_a_second_instance_fences_the_first():
    shell = Shell()
    first = shell.init()
    second = shell.init()
    assert second == (first.producer_id, first.epoch + 1)
    told = f"is {first.producer_id} of epoch 1, not {first.producer_id} of epoch 0"
    with pytest.raises(FencedTransactionError, match=told):
        shell.add("a", first, P0)


def test_what_an_instance_had_open_is_aborted_before_another_gets_its_id():
    shell = Shell()
    first = shell.init()
    shell.add("a", first, P0)
    assert shell.init() is None
    with pytest.raises(ConcurrentTransactionsError):
        shell.init()
    (ending,) = shell.carry_out()
    assert ending == Ending("a", Identity(first.producer_id, 1), Marker.ABORT, frozenset({P0}))
    assert shell.init() == (first.producer_id, 2)


def test_a_producer_that_goes_on_after_an_error_keeps_its_place():
    shell = Shell()
    first = shell.init()
    second = shell.init(expected=first)
    assert second == (first.producer_id, first.epoch + 1)
    assert shell.init(expected=first) == second, "the answer got lost, and was asked for again"
    third = shell.init()
    for zombie in (first, second, Identity(999, 0)):
        with pytest.raises(FencedTransactionError):
            shell.init(expected=zombie)
    assert shell.init(expected=third).epoch == third.epoch + 1


def test_a_producer_out_of_epochs_gets_a_new_id():
    shell = Shell()
    identity = shell.init()
    transaction = shell.core.by_id["a"]
    transaction.epoch = LAST_EPOCH - 1
    renewed = shell.init(expected=transaction.current)
    assert renewed.producer_id != identity.producer_id
    assert renewed.epoch == 0
    assert shell.init(expected=Identity(identity.producer_id, LAST_EPOCH - 1)) == renewed
    shell.core.check_invariants()
    shell.add("a", renewed, P0)
    with pytest.raises(UnknownProducerError):
        shell.add("a", Identity(identity.producer_id, LAST_EPOCH - 1), P0)


def test_fencing_works_in_the_very_last_epoch():
    shell = Shell()
    shell.init()
    transaction = shell.core.by_id["a"]
    transaction.epoch = LAST_EPOCH - 1
    shell.add("a", transaction.current, P0)
    assert shell.init() is None
    (ending,) = shell.carry_out()
    assert ending.identity.epoch == LAST_EPOCH
    assert shell.init().epoch == 0


def test_a_producer_that_ends_its_last_epoch_goes_on_under_a_new_id():
    shell = Shell()
    shell.init()
    transaction = shell.core.by_id["a"]
    transaction.epoch = LAST_EPOCH - 1
    last = transaction.current
    shell.add("a", last, P0)
    renewed = shell.end_and_renew("a", last, Marker.COMMIT)
    assert renewed.producer_id != last.producer_id
    assert renewed.epoch == 0
    with pytest.raises(ConcurrentTransactionsError):
        shell.add("a", renewed, P0)
    shell.restart()
    (ending,) = shell.carry_out()
    assert ending.identity == Identity(last.producer_id, LAST_EPOCH)
    assert shell.end_and_renew("a", last, Marker.COMMIT) == renewed, "asked again"
    shell.restart()
    shell.core.check_invariants()
    shell.add("a", renewed, P0)
    with pytest.raises(UnknownProducerError):
        shell.add("a", last, P1)
    with pytest.raises(UnknownProducerError):
        shell.end_and_renew("a", last, Marker.COMMIT)


def test_what_was_never_begun_can_be_aborted_for_the_next_epoch():
    shell = Shell()
    first = shell.init()
    second = shell.end_and_renew("a", first, Marker.ABORT)
    assert second == (first.producer_id, first.epoch + 1)
    (ending,) = shell.carry_out()
    assert ending.partitions == frozenset()
    assert shell.state() == TransactionState.COMPLETE_ABORT
    assert shell.end_and_renew("a", first, Marker.ABORT) == second
    with pytest.raises(InvalidTransactionStateError):
        shell.end_and_renew("a", second, Marker.COMMIT)
    assert shell.init(expected=first) == second, "it never heard of its new epoch"


def test_a_producer_that_has_begun_in_its_new_epoch_is_not_taken_for_its_former_self():
    shell = Shell()
    first = shell.init()
    shell.add("a", first, P0)
    second = shell.end_and_renew("a", first, Marker.COMMIT)
    shell.carry_out()
    shell.add("a", second, P0)
    for marker in Marker:
        with pytest.raises(FencedTransactionError):
            shell.end_and_renew("a", first, marker)
    with pytest.raises(FencedTransactionError):
        shell.init(expected=first)


@pytest.mark.parametrize("timeout_ms", [0, -1, 15 * 60_000 + 1])
def test_a_timeout_out_of_bounds_is_refused(timeout_ms):
    with pytest.raises(InvalidTransactionTimeoutError):
        Shell().init(timeout_ms=timeout_ms)


def test_an_id_must_not_be_empty():
    shell = Shell()
    with pytest.raises(InvalidTransactionRequestError):
        shell.init("")
    with pytest.raises(InvalidTransactionRequestError):
        shell.end("", Identity(1, 0), Marker.COMMIT)


def test_there_is_an_end_to_how_many_ids_there_are():
    shell = Shell(max_ids=2)
    shell.init("a")
    shell.init("b")
    with pytest.raises(TooManyTransactionalIdsError):
        shell.init("c")
    shell.init("a")


# --- Time -----------------------------------------------------------------------------------------


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced():
    shell = Shell()
    identity = shell.init(timeout_ms=5000)
    shell.add("a", identity, P0)
    shell.now_ms += 4999
    shell.tick()
    assert not shell.unfinished
    shell.now_ms += 1
    shell.tick()
    with pytest.raises(FencedTransactionError):
        shell.end("a", identity, Marker.COMMIT)
    (ending,) = shell.carry_out()
    assert ending.marker is Marker.ABORT
    assert shell.state() == "CompleteAbort"


def test_a_silent_producer_that_promised_to_be_heard_of_is_taken_for_dead():
    shell = Shell()
    identity = shell.init(session_timeout_ms=30_000)
    shell.add("a", identity, P0)
    shell.now_ms += 29_000
    shell.core.heartbeat("a", identity, shell.now_ms)
    shell.now_ms += 29_000
    shell.tick()
    assert not shell.unfinished
    shell.now_ms += 1000
    shell.tick()
    assert [ending.marker for ending in shell.unfinished] == [Marker.ABORT]


def test_an_id_that_nobody_uses_is_forgotten_after_a_week():
    shell = Shell()
    shell.init("a")
    open_one = shell.init("b")
    shell.add("b", open_one, P0)
    shell.now_ms += 7 * DAY_MS
    shell.tick()
    with pytest.raises(UnknownTransactionalIdError):
        shell.core.describe("a")
    assert shell.state("b") == "PrepareAbort"
    shell.restart()
    assert [line.transactional_id for line in shell.core.list(TransactionFilter(), 0)] == ["b"]


# --- Administration -------------------------------------------------------------------------------


def test_an_administrator_aborts_what_is_open_and_nothing_else():
    shell = Shell()
    with pytest.raises(UnknownTransactionalIdError):
        shell.do(lambda core, out: core.abort("a", shell.now_ms, out))
    identity = shell.init()
    with pytest.raises(InvalidTransactionStateError):
        shell.do(lambda core, out: core.abort("a", shell.now_ms, out))
    shell.add("a", identity, P0)
    shell.do(lambda core, out: core.abort("a", shell.now_ms, out))
    with pytest.raises(ConcurrentTransactionsError):
        shell.do(lambda core, out: core.abort("a", shell.now_ms, out))
    assert [ending.marker for ending in shell.carry_out()] == [Marker.ABORT]


def test_a_transaction_that_was_begun_cannot_be_begun_again():
    shell = Shell()
    identity = shell.init()
    name = shell.do(lambda core, out: core.begin("a", identity, shell.now_ms, out))
    assert name.startswith("txn-")
    with pytest.raises(TransactionOpenError):
        shell.do(lambda core, out: core.begin("a", identity, shell.now_ms, out))
    shell.end("a", identity, Marker.COMMIT)
    (ending,) = shell.carry_out()
    assert ending.partitions == frozenset()


def test_a_listing_shows_what_was_asked_for():
    shell = Shell()
    for name in ("a", "b"):
        shell.init(name)
    identity = shell.core.by_id["b"].current
    shell.add("b", identity, P0)
    shell.now_ms += 10

    def listed(**wanted):
        return [
            line.transactional_id
            for line in shell.core.list(TransactionFilter(**wanted), shell.now_ms)
        ]

    assert listed() == ["a", "b"]
    assert listed(states=frozenset({"Ongoing"})) == ["b"]
    assert listed(producer_ids=frozenset({identity.producer_id})) == ["b"]
    assert listed(min_duration_ms=9) == ["b"]
    assert listed(min_duration_ms=10) == []
    assert listed(matches=lambda name: name == "a") == ["a"]


def test_a_decision_cannot_be_taken_back():
    shell = Shell()
    identity = shell.init()
    shell.add("a", identity, P0)
    shell.end("a", identity, Marker.COMMIT)
    transaction = shell.core.by_id["a"]
    for state in set(TransactionState) - MOVES[transaction.state]:
        with pytest.raises(InvariantError):
            transaction.move_to(state, 0)
