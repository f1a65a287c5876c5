"""The dead-letter queues of topics: list, show, redrive, purge."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import TopicError
from goqueue.protocols.http.api.errors import AtFieldError, FieldError
from goqueue.protocols.http.api.paths import PartitionPath, TopicPath
from goqueue.protocols.http.api.rights import (
    CLUSTER_ALTER,
    DELETE,
    READ,
    TOPIC_READ,
    TOPIC_WRITE,
    WRITE,
    all_of,
    on_topic,
    within,
)
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.api.shapes import Offset
from goqueue.protocols.http.limits import MAX_OFFSET_RANGES
from goqueue.protocols.http.messages.message_shapes import headers_out, text_of
from goqueue.protocols.http.queues.dead_letter_parts import (
    PLACE,
    edit_of,
    filter_of,
    filter_of_query,
    letter_line,
    place_of,
)
from goqueue.protocols.http.queues.dead_letter_shapes import (
    BoxLine,
    BoxList,
    LetterDetail,
    LetterLine,
    LetterList,
    LettersQuery,
    MovedAnswer,
    MovedBody,
    MovedQuery,
    Noted,
    Purged,
    PurgeQuery,
    RedriveAnswer,
    RedriveBody,
    RedriveList,
    RedrivePath,
    RefusedLine,
)
from goqueue.protocols.permissions import Permissions
from goqueue.queues.dead_letters.redrive import unknown_redrive
from goqueue.queues.dead_letters.redrive_engine import Redrive, RedriveRequest

if TYPE_CHECKING:
    from goqueue.access.rights import Right
    from goqueue.broker.broker import Broker

_DRY_RUN_S: Final = 10.0
"""How long the answer to a dry run waits for its end."""
_TAG: Final = "dead letters"


class LetterPath(PartitionPath, frozen=True):
    """One dead letter in the path."""

    offset: Offset


_OF_TOPIC: Final = within(TOPIC_READ, note="the original topic")
_REDRIVEN: Final = all_of(
    on_topic(READ),
    on_topic(READ, "body.letters_in"),
    within(TOPIC_WRITE, note="the topic that letters go to"),
    within(CLUSTER_ALTER, note="instead of it with `to_source`"),
)


class DeadLetterRoutes:
    """Dead letters."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._letters = broker.letters
        self._redrives = broker.redrives

    @route(
        "GET",
        "/dlq",
        right=within(TOPIC_READ, note="the topics that it covers"),
        tag=_TAG,
        place=PLACE,
    )
    async def list_boxes(self, may: Permissions) -> BoxList:
        """List dead-letter queues with their letter counts."""
        found = []
        for source in may.visible(TOPIC_READ, self._letters.sources(), str):
            box = self._letters.topic(source)
            if box is not None:
                total = await self._letters.count(source)
                newest = await self._letters.newest_ms(source)
                found.append(BoxLine(source, box.name, total, newest))
        return BoxList(found)

    @route("GET", "/topics/{topic}/dlq", right=on_topic(READ), tag=_TAG, place=PLACE)
    async def list_letters(self, path: TopicPath, query: LettersQuery) -> LetterList:
        """List the dead letters of a topic that have not been redriven."""
        box = self._letters.topic(path.topic)
        after = None if query.cursor is None else place_of(query.cursor)
        found: list[LetterLine] = []
        skip = query.skip
        async for letters in self._letters.read(path.topic, filter_of_query(query), after=after):
            found += (LetterLine(**letter_line(each)) for each in letters[skip:])
            skip = max(skip - len(letters), 0)
            if len(found) > query.limit:
                break
        shown = found[: query.limit]
        return LetterList(
            path.topic,
            None if box is None else box.name,
            await self._letters.count(path.topic),
            shown,
            f"{shown[-1].partition}:{shown[-1].offset}" if len(found) > len(shown) else None,
        )

    @route(
        "GET",
        "/topics/{topic}/dlq/{partition}/{offset}",
        right=on_topic(READ),
        tag=_TAG,
        place=PLACE,
    )
    async def inspect(self, path: LetterPath) -> LetterDetail:
        """One dead letter with value and headers."""
        partition = await self._letters.partition(path.topic, path.partition)
        letter = await self._letters.get(partition, path.offset)
        value, encoding = text_of(letter.record.value)
        return LetterDetail(
            **letter_line(letter),
            value=value,
            encoding=encoding,
            headers=headers_out(letter.headers),
            is_redriven=self._letters.is_redriven(partition, letter),
        )

    @route("DELETE", "/topics/{topic}/dlq", right=on_topic(DELETE), tag=_TAG, place=PLACE)
    async def purge(self, path: TopicPath, query: PurgeQuery) -> Purged:
        """Delete all dead letters of a topic; requires `confirm=true`."""
        if not query.confirm:
            raise FieldError(
                "this deletes every dead letter permanently: confirm with confirm=true",
                field="confirm",
                location="query",
                expected="true",
            )
        return Purged(path.topic, await self._redrives.purge(path.topic))

    @route(
        "POST",
        "/topics/{topic}/dlq/redrive",
        right=_REDRIVEN,
        tag=_TAG,
        status=202,
        place=PLACE,
    )
    async def redrive(self, path: TopicPath, body: RedriveBody, may: Permissions) -> RedriveAnswer:
        """Redrive dead letters to their original topic or to another one.

        The redrive runs in the background: see `GET /redrives/{id}`. A redriven letter is no longer
        listed, and is not redriven again. With `edit`, `filter.offsets` names the one letter that
        is corrected.
        """
        if body.to_source:
            may.require(CLUSTER_ALTER)  # the letters themselves say where they go
        elif not may.is_open:
            may.require(TOPIC_WRITE, body.to or path.topic)
        request = RedriveRequest(
            path.topic,
            to=body.to,
            chosen=filter_of(body.filter),
            limit=body.limit,
            rate=body.rate,
            dry_run=body.dry_run,
            letters_in=body.letters_in,
            to_source=body.to_source,
            edit=edit_of(body),
        )
        try:
            redrive = self._redrives.begin(request)
        except TopicError as error:
            if body.to is None:
                raise
            raise AtFieldError(error, "to") from error
        if body.dry_run and redrive.task is not None:
            await asyncio.wait([redrive.task], timeout=_DRY_RUN_S)
        return self._answer(redrive)

    @route(
        "GET",
        "/topics/{topic}/redriven/{partition}",
        right=all_of(on_topic(READ), on_topic(READ, "query.letters_in")),
        tag=_TAG,
        place=PLACE,
    )
    async def list_moved(self, path: PartitionPath, query: MovedQuery) -> MovedAnswer:
        """List the redriven letters of a partition of the dead-letter topic."""
        partition = await self._letters.partition(path.topic, path.partition, query.letters_in)
        found = self._letters.moved(partition, query.from_offset, MAX_OFFSET_RANGES)
        following = found[-1][1] if len(found) >= MAX_OFFSET_RANGES else None
        return MovedAnswer(path.topic, path.partition, [*map(list, found)], following)

    @route(
        "POST",
        "/topics/{topic}/redriven/{partition}",
        right=all_of(on_topic(READ), on_topic(WRITE), on_topic(READ, "body.letters_in")),
        tag=_TAG,
        place=PLACE,
    )
    async def note_moved(self, path: PartitionPath, body: MovedBody) -> Noted:
        """Record letters as redriven by other means; they are not listed or redriven again."""
        partition = await self._letters.partition(path.topic, path.partition, body.letters_in)
        noted = await self._redrives.note_moved(path.topic, partition, body.ranges)
        return Noted(path.topic, path.partition, noted)

    @route("GET", "/redrives", right=_OF_TOPIC, tag=_TAG, place=PLACE)
    async def list_redrives(self, may: Permissions) -> RedriveList:
        """List recent redrives."""
        seen = may.visible(TOPIC_READ, self._redrives, lambda each: each.request.topic)
        return RedriveList([self._answer(each) for each in seen])

    @route("GET", "/redrives/{id}", right=_OF_TOPIC, tag=_TAG, place=PLACE)
    async def progress(self, path: RedrivePath, may: Permissions) -> RedriveAnswer:
        """Describe a redrive."""
        return self._answer(self._seen(may, TOPIC_READ, path.id))

    @route(
        "DELETE",
        "/redrives/{id}",
        right=within(TOPIC_WRITE, note="the original topic"),
        tag=_TAG,
        place=PLACE,
    )
    async def cancel(self, path: RedrivePath, may: Permissions) -> RedriveAnswer:
        """Cancel a redrive; letters that were redriven stay redriven."""
        self._seen(may, TOPIC_WRITE, path.id)
        return self._answer(await self._redrives.cancel(path.id))

    def _seen(self, may: Permissions, right: Right, redrive_id: int) -> Redrive:
        """A redrive, if the client has the right on its topic; otherwise as if there were none."""
        redrive = self._redrives.get(redrive_id)
        if not may.allows(right, redrive.request.topic):
            raise unknown_redrive(redrive_id)
        return redrive

    def _answer(self, redrive: Redrive) -> RedriveAnswer:
        request = redrive.request
        return RedriveAnswer(
            redrive.redrive_id,
            request.topic,
            request.target,
            request.dry_run,
            redrive.state,
            redrive.total,
            redrive.done,
            redrive.failed,
            round(redrive.rate(self._broker.clock.now_ms()), 3),
            redrive.error or None,
            redrive.started_ms,
            redrive.ended_ms,
            dict(redrive.targets),
            [RefusedLine(*each) for each in redrive.refused],
        )
