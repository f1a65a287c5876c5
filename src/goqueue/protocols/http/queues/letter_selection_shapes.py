"""What requests and answers about many dead letters at once look like."""

from __future__ import annotations

from typing import Annotated

import msgspec

from goqueue.protocols.http.api.shapes import Milliseconds, doc
from goqueue.protocols.http.queues.dead_letter_shapes import ChosenQuery, FilterBody, LetterLine


class ErrorsQuery(ChosenQuery, forbid_unknown_fields=True):
    """Filters of the letters that are grouped."""

    cursor: Annotated[str | None, doc("`next` of the last response.", "0:19999")] = None


class ErrorLine(msgspec.Struct):
    """Dead letters with the same reason and last error."""

    reason: Annotated[str | None, doc("The reason.", "REJECTED")]
    error: Annotated[
        str, doc("The last error, with # for numbers and ids; empty if none was given.", "no #")
    ]
    count: Annotated[int, doc("Letters in this group.", 120)]
    oldest_at: Milliseconds
    newest_at: Milliseconds
    groups: Annotated[list[str], doc("Consumer groups.", ["billing"])]
    example: Annotated[LetterLine, doc("The newest of them.")]


class ErrorsAnswer(msgspec.Struct):
    """Dead letters by reason and last error, the most frequent first."""

    topic: Annotated[str, doc("The original topic.", "orders")]
    errors: list[ErrorLine]
    letters: Annotated[int, doc("Matching letters that this response counts.", 10000)]
    others: Annotated[int, doc("Of them, letters of rarer errors that are not listed.", 0)]
    next: Annotated[str | None, doc("The `cursor` of the next request; null at the end.")]


class DeleteLettersBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which letters are deleted."""

    filter: Annotated[FilterBody | None, doc("At least one field, or `all` is true.")] = None
    all: Annotated[bool, doc("Delete every letter when there is no filter.")] = False


class DeletedLetters(msgspec.Struct):
    """What was deleted."""

    topic: str
    deleted: Annotated[int, doc("Letters deleted by this request.", 12)]
