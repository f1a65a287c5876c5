"""What a client says in a fetch session, against a broker that believes every word."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from goqueue.client.consuming.fetch_session import FetchSession
from goqueue.protocols.kafka.errors import (
    FetchSessionNotFoundError,
    InvalidFetchSessionEpochError,
)
from goqueue.protocols.kafka.records.fetch_sessions import FetchSessions
from goqueue.wire.kafka import fetch as wire
from support.effort import examples

KEYS = st.tuples(st.sampled_from([UUID(int=1), UUID(int=2)]), st.integers(0, 2))


class Wanted(NamedTuple):
    offset: int
    leader_epoch: int = 0


class SessionMachine(RuleBasedStateMachine):
    """After each request the broker reads exactly what the client wants, from the same offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = FetchSessions()
        self.session = FetchSession(1000)
        self.wanted: dict[tuple[UUID, int], Wanted] = {}

    @rule(key=KEYS, offset=st.integers(0, 5))
    def want(self, key, offset):
        self.wanted[key] = Wanted(offset)

    @rule(key=KEYS)
    def want_no_more(self, key):
        self.wanted.pop(key, None)

    @rule(is_lost=st.booleans())
    def fetch(self, is_lost):
        try:
            found = self._ask()
        except (FetchSessionNotFoundError, InvalidFetchSessionEpochError):
            self.session.reset()
            found = self._ask()
        reads = {
            (place.topic_id, place.partition): each.read.fetch_offset
            for place, each in found.wanted.items()
        }
        assert reads == {key: each.offset for key, each in self.wanted.items()}
        if is_lost:
            self.session.reset()
        else:
            self.session.answered(found.session_id)

    @rule()
    def the_broker_restarts(self):
        self.broker = FetchSessions()

    @rule()
    def the_broker_keeps_no_sessions(self):
        self.broker = FetchSessions(max_places=0)

    def _ask(self):
        said = self.session.fields(self.wanted)
        return self.broker.resume(
            wire.FetchRequest(
                -1,
                0,
                1,
                1000,
                1,
                said["session_id"],
                said["session_epoch"],
                [
                    wire.FetchTopic(
                        None,
                        topic["topic_id"],
                        [
                            wire.FetchPartition(
                                each["partition"],
                                each["current_leader_epoch"],
                                each["fetch_offset"],
                                each["last_fetched_epoch"],
                                each["log_start_offset"],
                                each["partition_max_bytes"],
                            )
                            for each in topic["partitions"]
                        ],
                    )
                    for topic in said["topics"]
                ],
                [
                    wire.ForgottenTopic(None, each["topic_id"], each["partitions"])
                    for each in said["forgotten_topics_data"]
                ],
                "",
            )
        )


TestSession = SessionMachine.TestCase
TestSession.settings = settings(max_examples=examples(200), stateful_step_count=30)


def test_what_has_not_changed_is_not_said_again():
    session = FetchSession(1000)
    wanted = {(UUID(int=1), 0): Wanted(5), (UUID(int=1), 1): Wanted(7)}
    assert len(session.fields(wanted)["topics"][0]["partitions"]) == 2
    session.answered(77)
    assert session.fields(wanted)["topics"] == []
    session.answered(77)
    wanted[UUID(int=1), 1] = Wanted(8)
    (topic,) = session.fields(wanted)["topics"]
    assert [each["fetch_offset"] for each in topic["partitions"]] == [8]
