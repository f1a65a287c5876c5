"""Refusals are counted and not written one by one; logins are written once for some minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from goqueue.audit import access_trail
from goqueue.audit.access_trail import AccessTrail
from goqueue.audit.events import Event
from goqueue.audit.log import AuditLog

if TYPE_CHECKING:
    from collections.abc import Callable


class Lines(AuditLog):
    """Keeps what it is told."""

    is_on = True

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def record(self, event: str, **said: Any) -> None:
        self.lines.append((event, said))

    def refusals(self) -> list[tuple[str, str, int]]:
        return [
            (said["principal"], said["resource"], said["refusals"])
            for event, said in self.lines
            if event == Event.ACL_DENIED
        ]


class Later:
    """Time that is moved by hand, and what is to happen by then."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._calls: list[tuple[float, Callable[[], None]]] = []

    def __call__(self, wait_s: float, call: Callable[[], None]) -> None:
        self._calls.append((self.now_s + wait_s, call))

    def move(self, seconds: float) -> None:
        self.now_s += seconds
        due = [each for each in self._calls if each[0] <= self.now_s]
        self._calls = [each for each in self._calls if each[0] > self.now_s]
        for _, call in due:
            call()


@pytest.fixture
def later() -> Later:
    return Later()


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def trail(lines: Lines, later: Later) -> AccessTrail:
    return AccessTrail(lines, lambda: later.now_s, later)


def deny(trail: AccessTrail, who: str = "eve", topic: str = "secret") -> None:
    trail.denied(f"User:{who}", "WRITE", f"topic:{topic}", "10.0.0.1")


def test_the_first_refusal_is_written_at_once_and_the_others_are_counted(trail, lines, later):
    for _ in range(5):
        deny(trail)
    deny(trail, topic="other")
    assert lines.refusals() == [("User:eve", "topic:secret", 1), ("User:eve", "topic:other", 1)]
    later.move(9.9)
    assert len(lines.refusals()) == 2
    later.move(0.1)
    assert lines.refusals()[2:] == [("User:eve", "topic:secret", 4)]
    deny(trail)
    later.move(10.0)
    assert lines.refusals()[3:] == [("User:eve", "topic:secret", 1)]
    later.move(10.0)
    deny(trail)
    assert lines.refusals()[4:] == [("User:eve", "topic:secret", 1)], "and at once again"


def test_names_without_end_take_no_memory_and_are_counted_together(
    trail, lines, later, monkeypatch
):
    monkeypatch.setattr(access_trail, "MAX_COUNTED_REFUSALS", 3)
    for number in range(10):
        deny(trail, topic=f"guess-{number}")
    assert len(lines.refusals()) == 3
    later.move(10.0)
    assert lines.refusals()[3:] == [("", "", 7)]
    assert sum(count for _, _, count in lines.refusals()) == 10


def test_a_login_is_written_once_for_five_minutes(trail, lines, later):
    for listener in ("http", "grpc", "http"):
        trail.logged_in("User:ann", "10.0.0.1", listener, "bearer")
    trail.logged_in("User:ann", "10.0.0.2", "http", "bearer")
    assert [said["resource"] for _, said in lines.lines] == [
        "listener:http",
        "listener:grpc",
        "listener:http",
    ]
    later.move(299.0)
    trail.logged_in("User:ann", "10.0.0.1", "http", "bearer")
    assert len(lines.lines) == 3
    later.move(1.0)
    trail.logged_in("User:ann", "10.0.0.1", "http", "bearer")
    assert len(lines.lines) == 4
