"""What the routes of dead letters share: filters and edits from requests, letters as lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from goqueue.protocols.http.api.codecs import Encoding, time_ms, to_bytes
from goqueue.protocols.http.api.errors import FieldError
from goqueue.protocols.http.api.places import group_named
from goqueue.protocols.http.messages.message_shapes import priority_label, text_of
from goqueue.queues.dead_letters.letter_edit import LetterEdit
from goqueue.queues.dead_letters.letters import Letter, LetterFilter
from goqueue.queues.delivery.group import REDRIVE_GROUP

if TYPE_CHECKING:
    from goqueue.protocols.http.queues.dead_letter_shapes import (
        ChosenQuery,
        FilterBody,
        LetterEditBody,
        RedriveBody,
    )

PLACE: Final = group_named(REDRIVE_GROUP)
"""What has been redriven is the state of a group of our own."""
PREVIEW_BYTES: Final = 200
_CURSOR: Final = re.compile(r"(\d{1,9}):(\d{1,18})", re.ASCII)


def filter_of_query(query: ChosenQuery) -> LetterFilter:
    """The letters that a query means."""
    return LetterFilter(
        reason=query.reason,
        group=query.group,
        error=query.error,
        since_ms=None if query.since is None else time_ms(query.since, "since"),
        until_ms=None if query.until is None else time_ms(query.until, "until"),
    )


def filter_of(body: FilterBody) -> LetterFilter:
    """The letters that a body means."""
    place = "filter"
    offsets = body.offsets
    return LetterFilter(
        reason=body.reason,
        group=body.group,
        error=body.error,
        key=None if body.key is None else to_bytes(body.key, body.key_encoding, f"{place}.key"),
        since_ms=None
        if body.since is None
        else time_ms(body.since, f"{place}.since", location="body"),
        until_ms=None
        if body.until is None
        else time_ms(body.until, f"{place}.until", location="body"),
        offsets=None
        if offsets is None
        else {number: frozenset(named) for number, named in offsets.items()},
    )


def edit_of(body: RedriveBody) -> LetterEdit:
    """What a redrive corrects; of one letter, which the filter names."""
    edit = body.edit
    if edit is None:
        return LetterEdit()
    named = body.filter.offsets or {}
    count = sum(len(set(offsets)) for offsets in named.values())
    if count != 1:
        raise FieldError(
            f"edit corrects one dead letter, and filter.offsets names {count}",
            field="filter.offsets",
            expected="one partition with one offset",
        )
    return LetterEdit(
        key=_edited(edit.key, edit.key_encoding, "key"),
        value=_edited(edit.value, edit.encoding, "value"),
        headers=UNSET if edit.headers is UNSET else tuple(_headers(edit)),
    )


def _edited(text: Any, encoding: Encoding, name: str) -> Any:
    return text if text is UNSET or text is None else to_bytes(text, encoding, f"edit.{name}")


def _headers(edit: LetterEditBody) -> list[tuple[str, bytes | None]]:
    found: list[tuple[str, bytes | None]] = []
    for at, each in enumerate(edit.headers or ()):
        field = f"edit.headers[{at}]"
        to_bytes(each.name, "text", f"{field}.name")
        value = each.value
        found.append(
            (
                each.name,
                None if value is None else to_bytes(value, each.encoding, f"{field}.value"),
            )
        )
    return found


def place_of(cursor: str) -> tuple[int, int]:
    """The letter that a page ended with."""
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise FieldError(
            f"cursor is {cursor[:50]!r}",
            field="cursor",
            location="query",
            expected="`next` of the last response",
        )
    return int(found[1]), int(found[2])


def letter_line(letter: Letter) -> dict[str, Any]:
    """The fields of a `LetterLine`."""
    record, said = letter.record, letter.cause
    key, key_encoding = text_of(record.key)
    preview, preview_encoding = _preview(record.value)
    return {
        "partition": letter.partition,
        "offset": record.offset,
        "key": key,
        "key_encoding": key_encoding,
        "preview": preview,
        "preview_encoding": preview_encoding,
        "size_bytes": len(record.value or b""),
        "source_topic": said.get("topic"),
        "source_partition": letter.number("partition"),
        "source_offset": letter.number("offset"),
        "source_timestamp": letter.number("timestamp"),
        "group": said.get("group"),
        "member": said.get("consumer") or None,
        "reason": said.get("reason"),
        "error": said.get("error") or None,
        "deliveries": letter.number("attempts"),
        "first_delivery": letter.number("first-delivery") or None,
        "last_delivery": letter.number("last-delivery") or None,
        "died_at": letter.died_ms,
        "redriven_count": letter.redriven,
        "priority": priority_label(letter.headers),
    }


def _preview(value: bytes | None) -> tuple[str | None, Encoding]:
    """The beginning of a value; text is not cut inside of a character."""
    if value is None or len(value) <= PREVIEW_BYTES:
        return text_of(value)
    cut = value[:PREVIEW_BYTES]
    try:
        value.decode()
    except UnicodeDecodeError:
        return text_of(cut, force_base64=True)
    return cut.decode(errors="ignore"), "text"
