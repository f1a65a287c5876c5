"""Many dead letters at once: grouped by error, and deleted by a filter."""

from __future__ import annotations

import asyncio
from typing import Final

from goqueue.protocols.http.api.errors import FieldError
from goqueue.protocols.http.api.paths import TopicPath
from goqueue.protocols.http.api.rights import DELETE, READ, all_of, on_topic
from goqueue.protocols.http.api.route import BrokerRoutes, route
from goqueue.protocols.http.limits import MAX_GROUPED_LETTERS
from goqueue.protocols.http.queues.dead_letter_parts import (
    PLACE,
    filter_of,
    filter_of_query,
    letter_line,
    place_of,
)
from goqueue.protocols.http.queues.dead_letter_shapes import FilterBody, LetterLine
from goqueue.protocols.http.queues.letter_selection_shapes import (
    DeletedLetters,
    DeleteLettersBody,
    ErrorLine,
    ErrorsAnswer,
    ErrorsQuery,
)
from goqueue.queues.dead_letters.error_groups import ErrorGroup, ErrorGroups

_TAG: Final = "dead letters"


class LetterSelectionRoutes(BrokerRoutes):
    """Dead letters, many at once."""

    @route("GET", "/topics/{topic}/dlq/errors", right=on_topic(READ), tag=_TAG, place=PLACE)
    async def list_errors(self, path: TopicPath, query: ErrorsQuery) -> ErrorsAnswer:
        """Count the dead letters of a topic by reason and last error.

        Errors that differ only in numbers and ids are one. A request counts up to 20000 letters:
        continue with `next` as the `cursor`, and add the counts up.
        """
        groups = ErrorGroups()
        after = None if query.cursor is None else place_of(query.cursor)
        chosen, last = filter_of_query(query), None
        async for letters in self._broker.letters.read(path.topic, chosen, after=after):
            room = MAX_GROUPED_LETTERS - groups.letters
            if room <= 0:
                break
            groups.add(letters[:room])
            at = letters[:room][-1]
            last = f"{at.partition}:{at.record.offset}"
            if len(letters) > room:
                break
            await asyncio.sleep(0)  # others have their turn
        else:
            last = None
        lines = [_line(each) for each in groups.largest_first()]
        return ErrorsAnswer(path.topic, lines, groups.letters, groups.others, last)

    @route(
        "POST",
        "/topics/{topic}/dlq/delete",
        right=all_of(on_topic(READ), on_topic(DELETE)),
        tag=_TAG,
        place=PLACE,
    )
    async def delete_letters(self, path: TopicPath, body: DeleteLettersBody) -> DeletedLetters:
        """Delete dead letters of a topic: those that a filter names.

        A deleted letter is neither listed nor redriven any more. The dead-letter topic keeps its
        record until its retention removes it; a purge removes all of them at once.
        """
        chosen = body.filter
        if chosen is None or chosen == FilterBody():
            if not body.all:
                raise FieldError(
                    "no filter says which dead letters are deleted",
                    field="filter",
                    expected="a filter, or `all`: true",
                )
            chosen = FilterBody()
        deleted = await self._broker.redrives.delete(path.topic, filter_of(chosen))
        return DeletedLetters(path.topic, deleted)


def _line(group: ErrorGroup) -> ErrorLine:
    return ErrorLine(
        group.reason,
        group.error,
        group.count,
        group.oldest_ms,
        group.newest_ms,
        sorted(group.consumers),
        LetterLine(**letter_line(group.example)),
    )
