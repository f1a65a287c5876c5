"""Fetch sessions, held against a client that asks for everything every time."""

from __future__ import annotations

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from goqueue.protocols.kafka.errors import (
    FetchSessionNotFoundError,
    InvalidFetchSessionEpochError,
)
from goqueue.protocols.kafka.records.fetch import _topics
from goqueue.protocols.kafka.records.fetch_sessions import FetchSessions, Place
from goqueue.wire.kafka.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from support.effort import examples

PLACES = [Place(topic, None, number) for topic in ("a", "b") for number in range(2)]


def _request(session_id, epoch, wanted=(), forgotten=()):
    """A request for places with offsets."""
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(
                place.name, None, [FetchPartition(place.partition, -1, offset, -1, -1, 1 << 20)]
            )
            for place, offset in wanted
        ],
        forgotten=[ForgottenTopic(place.name, None, [place.partition]) for place in forgotten],
        rack_id="",
    )


class SessionMachine(RuleBasedStateMachine):
    """A client with a session; the twin is what a full fetch would say right now."""

    def __init__(self):
        super().__init__()
        self.sessions = FetchSessions(max_sessions=3, max_places=6)
        self.ends = dict.fromkeys(PLACES, 0)
        self.offsets: dict[Place, int] = {}
        """What the client reads, and from where."""
        self.unsent: dict[Place, int] = {}
        self.dropped: set[Place] = set()
        self.known: dict[Place, int] = {}
        """The high watermarks that the client was told."""
        self.session_id, self.epoch = 0, 0

    # What happens at the server.

    @rule(place=st.sampled_from(PLACES))
    def append(self, place):
        self.ends[place] += 1

    # What the client wants.

    @rule(place=st.sampled_from(PLACES), offset=st.integers(0, 3))
    def read(self, place, offset):
        self.offsets[place] = self.unsent[place] = min(offset, self.ends[place])
        self.dropped.discard(place)

    @precondition(lambda self: self.offsets)
    @rule(data=st.data())
    def forget(self, data):
        place = data.draw(st.sampled_from(sorted(self.offsets, key=str)))
        del self.offsets[place]
        self.unsent.pop(place, None)
        self.dropped.add(place)

    @rule()
    def others_come(self):
        """Sessions of others; in the end ours is pushed out."""
        self.sessions.resume(_request(0, 0, [(PLACES[0], 0)]))

    @rule()
    def fetch(self):
        try:
            session = self._ask()
        except FetchSessionNotFoundError:
            self.session_id, self.epoch = 0, 0
            self.unsent, self.dropped = dict(self.offsets), set()
            self.known.clear()
            session = self._ask()
        self.session_id, self.epoch = session.session_id, self.epoch + 1
        self.known = {place: end for place, end in self.known.items() if place in self.offsets}
        self.unsent, self.dropped = {}, set()
        self._take(session)

    def _ask(self):
        if self.epoch == 0:
            return self.sessions.resume(_request(self.session_id, 0, self.offsets.items()))
        request = _request(self.session_id, self.epoch, self.unsent.items(), self.dropped)
        return self.sessions.resume(request)

    def _take(self, session):
        """Answer as the server does, and hold the answer against a full one."""
        assert {place: want.read.fetch_offset for place, want in session.wanted.items()} == (
            self.offsets
        )
        full = {place: self._partition(place) for place in session.wanted}
        was_known = dict(self.known)
        answered = {
            Place(topic.name, topic.topic_id, result.partition): result
            for topic in _topics(session, full)
            for result in topic.partitions
        }
        for place, result in full.items():
            is_news = bool(result.records) or was_known.get(place) != result.high_watermark
            if session.is_incremental:
                assert (place in answered) == is_news
            else:
                assert place in answered
        for place, result in answered.items():
            assert result == full[place]
            self.known[place] = result.high_watermark
        # With what it was told before, the client now knows what a full fetch would have said.
        assert self.known == {place: result.high_watermark for place, result in full.items()}

    def _partition(self, place):
        has_records = self.offsets[place] < self.ends[place]
        end = self.ends[place]
        return FetchedPartition(place.partition, 0, end, end, 0, (b"x",) if has_records else ())

    @rule(step=st.sampled_from([-1, 1, 2]))
    def a_request_out_of_turn_is_refused(self, step):
        if self.epoch < 1 or self.epoch + step < 1:
            return
        with pytest.raises((InvalidFetchSessionEpochError, FetchSessionNotFoundError)):
            self.sessions.resume(_request(self.session_id, self.epoch + step))

    @invariant()
    def is_bounded(self):
        assert len(self.sessions) <= 3
        places = sum(len(each.wanted) for each in self.sessions._sessions.values())
        assert places == self.sessions._place_count <= 6


TestSessionsAgainstFullFetches = SessionMachine.TestCase
TestSessionsAgainstFullFetches.settings = settings(
    max_examples=examples(80), stateful_step_count=40
)


def test_ending_a_session_forgets_it():
    sessions = FetchSessions()
    session = sessions.resume(_request(0, 0, [(PLACES[0], 0)]))
    last = sessions.resume(_request(session.session_id, -1, [(PLACES[0], 0)]))
    assert (last.session_id, len(sessions)) == (0, 0)
    with pytest.raises(FetchSessionNotFoundError):
        sessions.resume(_request(session.session_id, 1))


def test_a_fetch_without_a_session_leaves_nothing_behind():
    sessions = FetchSessions()
    assert sessions.resume(_request(0, -1, [(PLACES[0], 0)])).session_id == 0
    assert len(sessions) == 0


def test_the_session_that_was_used_last_stays_longest():
    sessions = FetchSessions(max_sessions=2)
    first, second = (sessions.resume(_request(0, 0)) for _ in range(2))
    sessions.resume(_request(first.session_id, 1))
    sessions.resume(_request(0, 0))
    sessions.resume(_request(first.session_id, 2))
    with pytest.raises(FetchSessionNotFoundError):
        sessions.resume(_request(second.session_id, 1))


def test_a_session_of_too_many_partitions_is_not_remembered():
    sessions = FetchSessions(max_places=3)
    other = sessions.resume(_request(0, 0, [(PLACES[0], 0)]))
    large = sessions.resume(_request(0, 0, [(place, 0) for place in PLACES]))
    assert (large.session_id, len(large.wanted)) == (0, 4)
    assert sessions.resume(_request(other.session_id, 1)) is other


def test_a_session_that_grows_pushes_out_others_and_in_the_end_itself():
    sessions = FetchSessions(max_places=3)
    other = sessions.resume(_request(0, 0, [(PLACES[0], 0)]))
    session = sessions.resume(_request(0, 0, [(PLACES[0], 0)]))
    known_as = session.session_id
    sessions.resume(_request(known_as, 1, [(place, 0) for place in PLACES[1:3]]))
    with pytest.raises(FetchSessionNotFoundError):
        sessions.resume(_request(other.session_id, 1))
    grown = sessions.resume(_request(known_as, 2, [(PLACES[3], 0)]))
    assert (grown.session_id, len(grown.wanted), len(sessions)) == (0, 4, 0)


def test_the_epoch_of_a_session_starts_over_at_one():
    sessions = FetchSessions()
    session = sessions.resume(_request(0, 0))
    session.epoch = (1 << 31) - 1
    assert sessions.resume(_request(session.session_id, 1)).epoch == 1


def test_a_partition_that_was_served_lets_the_others_go_first():
    sessions = FetchSessions()
    session = sessions.resume(_request(0, 0, [(place, 0) for place in PLACES]))
    results = {
        place: FetchedPartition(place.partition, 0, 1, 1, 0, (b"x",) if place == PLACES[0] else ())
        for place in session.wanted
    }
    _topics(session, results)
    assert list(session.wanted) == [*PLACES[1:], PLACES[0]]
