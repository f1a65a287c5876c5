"""Whether an audit log is as it was written: no line changed, removed, inserted or moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.audit.chain import Line, Link, decode_line
from goqueue.audit.events import Event
from goqueue.audit.limits import MAX_LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_SHOWN: Final = 40
"""Characters of a line that is none."""
_MOST_PROBLEMS: Final = 100
"""Further ones are not collected."""


class Verified(msgspec.Struct):
    """What was found."""

    lines: int = 0
    first: int = 0
    last: int = 0
    head: str = ""
    """The hash of the last line. Who has noted an earlier one elsewhere can look for it."""
    dropped_events: int = 0
    """Events that the log itself says it had no room for."""
    torn_bytes: int = 0
    """Of a last line that was being written when the process was killed."""
    problems: list[str] = msgspec.field(default_factory=list)


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, each with its end; one that is too long comes in pieces."""
    with path.open("rb") as file:
        while line := file.readline(MAX_LINE_BYTES):
            yield line


def verify(lines: Iterable[bytes], *, head: Link | None = None, is_part: bool = False) -> Verified:
    """Hold every line against the one before it.

    `head` is the last line that the log has synced, as the log itself notes it. Lines before the
    first may be missing if the log says that it deleted them, or if this `is_part` of it.
    """
    checker = _Checker()
    for line in lines:
        checker.take(line)
    return checker.done(head, is_part=is_part)


class _Checker:
    """Goes through a log line by line."""

    def __init__(self) -> None:
        self._found = Verified()
        self._end: Link | None = None
        self._first_kept: set[int] = set()

    def take(self, raw: bytes) -> None:
        """Check the next line."""
        if not raw.endswith(b"\n"):
            self._found.torn_bytes += len(raw)
            return
        if self._found.torn_bytes:
            self._say(f"a line behind number {self._number} is cut short and not the last")
            self._found.torn_bytes = 0
        line = decode_line(raw)
        if line is None:
            shown = raw[:_SHOWN].decode("ascii", errors="backslashreplace").rstrip("\n")
            self._say(f"what follows line {self._number} is no line of an audit log: {shown!r}")
            return
        self._found.lines += 1
        self._check(line)
        self._note(line)
        self._end = line.link

    @property
    def _number(self) -> int:
        return 0 if self._end is None else self._end.sequence

    def _check(self, line: Line) -> None:
        number = line.link.sequence
        if not line.is_whole:
            self._say(f"line {number} was changed: it does not match its own hash")
        end = self._end
        if end is None:
            if number == 1 and line.previous != Link.start().hash:
                self._say("line 1 was changed: it does not begin the chain")
            return
        if number == end.sequence + 1:
            if line.previous != end.hash:
                self._say(f"line {number} does not continue line {end.sequence}: one was replaced")
        elif number > end.sequence:
            first, last = end.sequence + 1, number - 1
            which = f"line {first} is" if first == last else f"lines {first} to {last} are"
            self._say(f"{which} missing")
        else:
            self._say(f"line {number} follows line {end.sequence}: lines were moved or repeated")

    def _note(self, line: Line) -> None:
        details = line.fields.get("details")
        details = details if isinstance(details, dict) else {}
        if not self._found.first:
            self._found.first = line.link.sequence
        if line.fields.get("event") == Event.AUDIT_ROTATED:
            self._first_kept.add(details.get("first_kept", 0))
        if line.fields.get("event") == Event.AUDIT_DROPPED:
            self._found.dropped_events += details.get("events", 0)

    def done(self, head: Link | None, *, is_part: bool) -> Verified:
        """The end of the log is there."""
        found = self._found
        if self._end is not None:
            found.last, found.head = self._end
        if found.first > 1 and not is_part and found.first not in self._first_kept:
            self._say(
                f"lines 1 to {found.first - 1} are missing, and no line says that they expired"
            )
        if head is not None and head.sequence > found.last:
            self._say(f"lines {found.last + 1} to {head.sequence} are missing at the end")
        elif head is not None and head.sequence == found.last and head.hash != found.head:
            self._say(f"line {found.last} was replaced: the log has noted another hash for it")
        return found

    def _say(self, problem: str) -> None:
        if len(self._found.problems) < _MOST_PROBLEMS:
            self._found.problems.append(problem)
