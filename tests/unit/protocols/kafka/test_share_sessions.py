"""Share sessions: what they remember, and how many there are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from goqueue.model.errors import InvalidShareSessionEpochError, ShareSessionNotFoundError
from goqueue.protocols.kafka.errors import ShareSessionLimitError
from goqueue.protocols.kafka.share.sessions import ShareSessions

TOPIC = UUID(int=7)
ME = ("g", "me")


def request(epoch: int, *numbers: int, forgotten: tuple[int, ...] = ()) -> Any:
    places = [SimpleNamespace(partition_index=number) for number in numbers]
    return SimpleNamespace(
        share_session_epoch=epoch,
        topics=[SimpleNamespace(topic_id=TOPIC, partitions=places)],
        forgotten_topics_data=[SimpleNamespace(topic_id=TOPIC, partitions=list(forgotten))],
    )


def sessions(members: set[tuple[str, str]] | None = None, **bounds: int) -> ShareSessions:
    """Sessions; everyone is a member unless told otherwise."""
    return ShareSessions(lambda *key: members is None or key in members, **bounds)


def numbers(known: ShareSessions, said: Any) -> list[int]:
    return [number for _, number in known.resume(ME, said).places]


def test_partitions_are_remembered_added_and_forgotten() -> None:
    known = sessions()
    assert numbers(known, request(0, 1, 2)) == [1, 2]
    assert numbers(known, request(1)) == [1, 2]
    assert numbers(known, request(2, 3, forgotten=(1,))) == [2, 3]
    assert numbers(known, request(0, 9)) == [9]
    assert len(known) == 1


def test_every_request_is_the_next_one_or_refused() -> None:
    known = sessions()
    with pytest.raises(ShareSessionNotFoundError):
        known.resume(ME, request(1))
    known.resume(ME, request(0))
    known.advance(ME, 1)
    for epoch in (1, 3, 0):
        with pytest.raises(InvalidShareSessionEpochError):
            known.advance(ME, epoch)
    known.resume(ME, request(2))
    with pytest.raises(InvalidShareSessionEpochError):
        known.resume(ME, request(2))
    known.close(ME)
    with pytest.raises(ShareSessionNotFoundError):
        known.close(ME)


def test_epochs_begin_again_at_one() -> None:
    known = sessions()
    session = known.resume(ME, request(0))
    session.epoch = 2**31 - 1
    known.resume(ME, request(2**31 - 1))
    known.resume(ME, request(1))


def test_at_the_bound_those_of_members_that_are_gone_make_room() -> None:
    members = {("g", "a"), ("g", "b"), ("g", "c")}
    known = sessions(members, max_sessions=2)
    known.resume(("g", "a"), request(0))
    known.resume(("g", "b"), request(0))
    with pytest.raises(ShareSessionLimitError):
        known.resume(("g", "c"), request(0))
    known.resume(("g", "b"), request(0))  # one that is there is opened anew
    members.remove(("g", "a"))
    known.resume(("g", "c"), request(0))
    assert ("g", "a") not in known
    assert len(known) == 2


def test_partitions_are_counted_together() -> None:
    members = {("g", "a"), ME}
    known = sessions(members, max_places=3)
    known.resume(("g", "a"), request(0, 1, 2))
    with pytest.raises(ShareSessionLimitError):
        known.resume(ME, request(0, 1, 2))
    assert ME not in known
    known.resume(ME, request(0, 1))
    known.resume(ME, request(1, forgotten=(1,)))
    known.resume(ME, request(2, 5))
    members.remove(("g", "a"))
    known.resume(ME, request(3, 6, 7))
    assert ("g", "a") not in known
