"""Lines of an audit log: what they hold, and that nothing a client chooses can forge one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from goqueue.audit.chain import Link, decode_line, encode_line
from goqueue.audit.events import AuditEvent, Outcome
from goqueue.audit.limits import MAX_DETAILS, MAX_TEXT_CHARS
from goqueue.audit.verifying import verify

if TYPE_CHECKING:
    from random import Random

ANY_TEXT = st.text(st.characters(), max_size=40)


def log_of(count: int) -> list[bytes]:
    lines, end = [], Link.start()
    for number in range(count):
        line, end = encode_line(
            end, "node-1", AuditEvent(number, "topic_created", f"User:{number}")
        )
        lines.append(line)
    return lines


def test_a_line_holds_who_did_what_from_where_on_what_and_how_it_ended() -> None:
    event = AuditEvent(
        1_700_000_000_123,
        "topic_created",
        "User:alice",
        "10.0.0.7",
        "topic:orders",
        Outcome.FAILURE,
        "abc-1",
        {"partitions": 3, "reason": "exists"},
    )
    line, end = encode_line(Link.start(), "node-1", event)
    found = json.loads(line)
    assert found["previous"] == "0" * 64
    assert found["hash"] == end.hash
    assert [found.pop(name) for name in ("previous", "hash")]
    assert found == {
        "seq": 1,
        "time": "2023-11-14T22:13:20.123Z",
        "node": "node-1",
        "event": "topic_created",
        "principal": "User:alice",
        "client": "10.0.0.7",
        "resource": "topic:orders",
        "outcome": "failure",
        "request_id": "abc-1",
        "details": {"partitions": 3, "reason": "exists"},
    }


@given(name=ANY_TEXT, detail=ANY_TEXT)
def test_no_name_breaks_out_of_its_line(name: str, detail: str) -> None:
    event = AuditEvent(0, "auth_failure", name, name, name, details={name: detail})
    line, _ = encode_line(Link.start(), "node-1", event)
    assert line.count(b"\n") == 1
    assert all(32 <= byte < 127 for byte in line[:-1])
    found = decode_line(line)
    assert found is not None
    assert found.is_whole
    assert found.fields["principal"] == name
    assert not verify([line]).problems


@pytest.mark.parametrize(
    "name",
    ['x\n{"seq":2,"event":"acl_added"}', '","hash":"' + "0" * 64 + '"}', "\x1b[2J\x7f\u2028"],
)
def test_a_name_that_looks_like_a_line_or_a_hash_forges_none(name: str) -> None:
    first, end = encode_line(Link.start(), "n", AuditEvent(0, "auth_failure", name))
    second, _ = encode_line(end, "n", AuditEvent(0, "auth_success", "User:alice"))
    found = verify((first + second).splitlines(keepends=True))
    assert (found.lines, found.problems) == (2, [])


def test_texts_and_details_are_bounded() -> None:
    details = {str(number): "y" * 10_000 for number in range(100)}
    line, _ = encode_line(Link.start(), "n", AuditEvent(0, "e", "x" * 1_000_000, details=details))
    found = json.loads(line)
    assert len(found["principal"]) == MAX_TEXT_CHARS
    assert found["principal"].endswith("…")
    assert len(found["details"]) == MAX_DETAILS


@given(st.randoms(use_true_random=False))
def test_a_flipped_bit_a_removed_a_moved_and_a_repeated_line_show(random: Random) -> None:
    lines = log_of(20)
    assert not verify(lines).problems
    at = random.randrange(20)
    flipped = bytearray(lines[at])
    flipped[random.randrange(len(flipped) - 1)] ^= 1 << random.randrange(7)
    inner = random.randrange(19)  # without the last line the log is shorter, and whole
    moved = list(lines)
    moved.insert(0, moved.pop(random.randrange(1, 20)))
    for wrong in (
        [*lines[:at], bytes(flipped), *lines[at + 1 :]],
        lines[:inner] + lines[inner + 1 :],
        [*lines[: at + 1], lines[at], *lines[at + 1 :]],
        moved,
    ):
        assert verify(wrong).problems


def test_a_line_written_anew_with_a_hash_of_its_own_shows_in_the_next() -> None:
    lines = log_of(3)
    lines[1], _ = encode_line(
        Link(1, json.loads(lines[0])["hash"]), "node-1", AuditEvent(1, "topic_created", "User:eve")
    )
    assert verify(lines).problems == ["line 3 does not continue line 2: one was replaced"]


def test_one_gap_is_told_once_with_the_lines_that_are_missing() -> None:
    lines = log_of(10)
    assert verify(lines[:3] + lines[6:]).problems == ["lines 4 to 6 are missing"]
    assert verify(lines[2:]).problems == [
        "lines 1 to 2 are missing, and no line says that they expired"
    ]
    assert not verify(lines[2:], is_part=True).problems


def test_missing_last_lines_show_by_the_head() -> None:
    lines = log_of(5)
    head = decode_line(lines[-1])
    assert head is not None
    assert verify(lines[:3], head=head.link).problems == ["lines 4 to 5 are missing at the end"]
    assert not verify(lines, head=head.link).problems


def test_a_torn_last_line_is_no_damage_and_one_in_the_middle_is() -> None:
    lines = log_of(3)
    found = verify([*lines, b'{"seq":4,"ti'])
    assert (found.torn_bytes, found.problems) == (12, [])
    assert verify([lines[0], b'{"seq"', *lines[1:]]).problems
