"""Dead letters: what nobody could process, looked at, sent back, or thrown away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from goqueue.broker.letters import LetterFilter
from goqueue.broker.redrive import RedriveRequest
from goqueue.model.errors import TopicError
from goqueue.protocols.http.codecs import Encoding, Time, time_ms, to_bytes
from goqueue.protocols.http.errors import AtFieldError, FieldError
from goqueue.protocols.http.message_shapes import (
    HeaderOut,
    headers_out,
    priority_label,
    text_of,
)
from goqueue.protocols.http.messages import Limit  # noqa: TC001 - read by the router
from goqueue.protocols.http.routing import route
from goqueue.protocols.http.shapes import (
    GroupName,
    Milliseconds,
    Offset,
    PartitionNumber,
    PartitionPath,
    TopicName,
    TopicPath,
    doc,
)

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.broker.letters import Letter
    from goqueue.broker.redrive import Redrive

PREVIEW_BYTES: Final = 200
MAX_RATE: Final = 1_000_000
_DRY_RUN_S: Final = 10.0
"""How long the answer to a dry run waits for its end."""
_TAG: Final = "dead letters"
_REASONS: Final = "MAX_RETRIES_EXCEEDED, REJECTED, TTL_EXPIRED, POISON_MESSAGE or BACKPRESSURE."


# --- Looking -------------------------------------------------------------------------------------


class LettersQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which dead letters are wanted."""

    limit: Limit = 100
    skip: Annotated[int, doc("So many of those that are meant are left out.", 0, ge=0)] = 0
    reason: Annotated[str | None, doc(_REASONS, "REJECTED")] = None
    group: Annotated[GroupName | None, doc("In which they died.")] = None
    since: Annotated[Time | None, doc("Died from then on.")] = None
    until: Annotated[Time | None, doc("Died before then.")] = None


class LetterPath(PartitionPath, frozen=True):
    """One dead letter in the path."""

    offset: Offset


class LetterLine(msgspec.Struct):
    """One dead letter in a list."""

    partition: Annotated[int, doc("Of the dead-letter topic.", 0)]
    offset: Annotated[int, doc("In the dead-letter topic.", 3)]
    key: Annotated[str | None, doc("Null if it has none.", "customer-7")]
    key_encoding: Encoding
    preview: Annotated[str | None, doc("The beginning of the value.", '{"id": 1}')]
    preview_encoding: Encoding
    size_bytes: Annotated[int, doc("Of the whole value.", 9)]
    source_topic: Annotated[str | None, doc("Where it came from.", "orders")]
    source_partition: int | None
    source_offset: int | None
    source_timestamp: Milliseconds | None
    group: Annotated[str | None, doc("In which it died.", "billing")]
    member: Annotated[str | None, doc("Who had it last.", "worker-1-5f0c")]
    reason: Annotated[str | None, doc(_REASONS, "REJECTED")]
    error: Annotated[str | None, doc("What was said last.", "no such customer")]
    deliveries: Annotated[int | None, doc("How often it was tried.", 3)]
    first_delivery: Milliseconds | None
    last_delivery: Milliseconds | None
    died_at: Milliseconds
    redriven_count: Annotated[int, doc("How often it went back before.", 0)]
    priority: Annotated[str, doc("The lane that it waits in when it goes back.", "normal")]


class LetterDetail(LetterLine):
    """One dead letter, whole."""

    value: Annotated[str | None, doc("Null is a tombstone.", '{"id": 1}')]
    encoding: Encoding
    headers: Annotated[list[HeaderOut], doc("As they were before it died.")]
    is_redriven: Annotated[bool, doc("It went back; it is not listed any more.")]


class LetterList(msgspec.Struct):
    """Dead letters that have not gone back, by partition and offset."""

    topic: Annotated[str, doc("Where they came from.", "orders")]
    dead_letter_topic: Annotated[str | None, doc("Null if there never was one.", "orders.dlq")]
    total: Annotated[int, doc("All that have not gone back, whatever is asked for.", 12)]
    letters: list[LetterLine]


class BoxLine(msgspec.Struct):
    """A topic with a dead-letter topic."""

    topic: Annotated[str, doc("Where the letters came from.", "orders")]
    dead_letter_topic: Annotated[str, doc("Where they are.", "orders.dlq")]
    total: Annotated[int, doc("Letters that have not gone back.", 12)]
    newest_at: Annotated[Milliseconds | None, doc("When the last one came; null: none is left.")]


class BoxList(msgspec.Struct):
    """Every topic that has dead letters, or had some."""

    topics: list[BoxLine]


# --- Sending back --------------------------------------------------------------------------------


class FilterBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which letters are meant; everything that is said must hold."""

    reason: Annotated[str | None, doc(_REASONS, "REJECTED")] = None
    group: Annotated[GroupName | None, doc("In which they died.")] = None
    key: Annotated[str | None, doc("The whole key.", "customer-7")] = None
    key_encoding: Annotated[Encoding, doc("How `key` is written.", "text")] = "text"
    since: Annotated[Time | None, doc("Died from then on.")] = None
    until: Annotated[Time | None, doc("Died before then.")] = None
    offsets: Annotated[
        dict[PartitionNumber, list[Offset]] | None,
        doc("Only these, by partition of the dead-letter topic.", {"0": [3, 4]}),
    ] = None


class RedriveBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which letters shall go back, and how fast."""

    to: Annotated[TopicName | None, doc("Another topic; where they came from, if left out.")] = None
    filter: Annotated[FilterBody, doc("All, if left out.")] = msgspec.field(
        default_factory=FilterBody
    )
    limit: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None, doc("The most letters to send back.")
    ] = None
    rate: Annotated[
        Annotated[float, msgspec.Meta(gt=0, le=MAX_RATE)] | None, doc("Messages a second.", 100)
    ] = None
    dry_run: Annotated[bool, doc("Only count them.")] = False


class RedrivePath(msgspec.Struct, frozen=True):
    """A redrive in the path."""

    id: Annotated[int, doc("As the answer to the request said it.", 1, ge=1)]


class RedriveAnswer(msgspec.Struct):
    """A redrive, under way or over."""

    id: int
    topic: Annotated[str, doc("Where the letters came from.", "orders")]
    to: Annotated[str, doc("Where they go.", "orders")]
    dry_run: bool
    state: Annotated[str, doc("counting, running, done, cancelled or failed.", "running")]
    total: Annotated[int, doc("Letters that are meant, once they are counted.", 12)]
    done: Annotated[int, doc("Letters that have gone.", 5)]
    failed: Annotated[int, doc("Letters that were refused; they stay.", 0)]
    rate: Annotated[float, doc("Messages a second so far.", 99.5)]
    error: Annotated[str | None, doc("Why letters were refused, or all of it failed.")]
    started_at: Milliseconds
    ended_at: Milliseconds | None


class RedriveList(msgspec.Struct):
    """Redrives of this server since it started, the newest last."""

    redrives: list[RedriveAnswer]


class PurgeQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Whether one is sure."""

    confirm: Annotated[bool, doc("Must be true: what is removed is gone for good.")] = False


class Purged(msgspec.Struct):
    """What is gone."""

    topic: str
    purged: Annotated[int, doc("Letters that had not gone back.", 12)]


MAX_RANGES: Final = 10_000
"""Of letters in one request or answer."""
LetterRange = Annotated[tuple[Offset, Offset], doc("The first, and the one behind the last.")]


class MovedQuery(msgspec.Struct, forbid_unknown_fields=True):
    """From where on."""

    from_offset: Annotated[Offset, doc("Of the dead-letter topic.")] = 0


class MovedAnswer(msgspec.Struct):
    """Letters of one partition that have gone back."""

    topic: Annotated[str, doc("Where they came from.", "orders")]
    partition: Annotated[int, doc("Of the dead-letter topic.", 0)]
    ranges: Annotated[
        list[tuple[int, int]], doc("Offsets: the first, and behind the last.", [[3, 5]])
    ]
    next_offset: Annotated[int | None, doc("Ask again from here; null: that is all.", None)]


class MovedBody(msgspec.Struct, forbid_unknown_fields=True):
    """Letters that somebody has sent back by other means."""

    ranges: Annotated[
        Annotated[list[LetterRange], msgspec.Meta(max_length=MAX_RANGES)],
        doc("Offsets of the dead-letter topic.", [[3, 5]]),
    ]


class Noted(msgspec.Struct):
    """What was not known before."""

    topic: str
    partition: int
    noted: Annotated[int, doc("Letters that had not gone back as far as was known.", 2)]


class DeadLetterRoutes:
    """Dead letters."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._letters = broker.letters
        self._redrives = broker.redrives

    @route("GET", "/dlq", tag=_TAG)
    async def list_boxes(self) -> BoxList:
        """Every topic that has dead letters, or had some, and how many wait."""
        found = []
        for source in self._letters.sources():
            box = self._letters.topic(source)
            if box is not None:
                total = await self._letters.count(source)
                newest = await self._letters.newest_ms(source)
                found.append(BoxLine(source, box.name, total, newest))
        return BoxList(found)

    @route("GET", "/topics/{topic}/dlq", tag=_TAG)
    async def list_letters(self, path: TopicPath, query: LettersQuery) -> LetterList:
        """The dead messages of a topic that have not gone back."""
        box = self._letters.topic(path.topic)
        chosen = LetterFilter(
            reason=query.reason,
            group=query.group,
            since_ms=None if query.since is None else time_ms(query.since, "since"),
            until_ms=None if query.until is None else time_ms(query.until, "until"),
        )
        found: list[LetterLine] = []
        skip = query.skip
        async for letters in self._letters.read(path.topic, chosen):
            found += (LetterLine(**_line(each)) for each in letters[skip:])
            skip = max(skip - len(letters), 0)
            if len(found) >= query.limit:
                break
        return LetterList(
            path.topic,
            None if box is None else box.name,
            await self._letters.count(path.topic),
            found[: query.limit],
        )

    @route("GET", "/topics/{topic}/dlq/{partition}/{offset}", tag=_TAG)
    async def inspect(self, path: LetterPath) -> LetterDetail:
        """One dead letter, whole."""
        letter = await self._letters.get(path.topic, path.partition, path.offset)
        value, encoding = text_of(letter.record.value)
        return LetterDetail(
            **_line(letter),
            value=value,
            encoding=encoding,
            headers=headers_out(letter.headers),
            is_redriven=self._letters.has_gone_back(path.topic, letter),
        )

    @route("DELETE", "/topics/{topic}/dlq", tag=_TAG)
    async def purge(self, path: TopicPath, query: PurgeQuery) -> Purged:
        """Remove all dead messages of a topic, for good; `confirm=true` says that one is sure."""
        if not query.confirm:
            raise FieldError(
                "this removes every dead letter for good: say confirm=true",
                field="confirm",
                location="query",
                expected="true",
            )
        return Purged(path.topic, await self._redrives.purge(path.topic))

    @route("POST", "/topics/{topic}/dlq/redrive", tag=_TAG, status=202)
    async def redrive(self, path: TopicPath, body: RedriveBody) -> RedriveAnswer:
        """Publish dead letters again, to where they came from or elsewhere.

        They go in the background: look at `GET /redrives/{id}`. A letter that has gone is not
        listed any more, and goes no second time.
        """
        request = RedriveRequest(
            path.topic,
            body.to,
            _filter(body.filter),
            body.limit,
            body.rate,
            body.dry_run,
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

    @route("GET", "/topics/{topic}/redriven/{partition}", tag=_TAG)
    async def list_moved(self, path: PartitionPath, query: MovedQuery) -> MovedAnswer:
        """Which letters of a partition of the dead-letter topic have gone back."""
        first = query.from_offset
        found = self._letters.moved(path.topic, path.partition, first, MAX_RANGES)
        following = found[-1][1] if len(found) >= MAX_RANGES else None
        return MovedAnswer(path.topic, path.partition, found, following)

    @route("POST", "/topics/{topic}/redriven/{partition}", tag=_TAG)
    async def note_moved(self, path: PartitionPath, body: MovedBody) -> Noted:
        """Say that letters were sent back by other means: they are not listed, nor sent, again."""
        noted = await self._redrives.note_moved(path.topic, path.partition, body.ranges)
        return Noted(path.topic, path.partition, noted)

    @route("GET", "/redrives", tag=_TAG)
    async def list_redrives(self) -> RedriveList:
        """Every redrive that this server remembers."""
        return RedriveList([self._answer(each) for each in self._redrives])

    @route("GET", "/redrives/{id}", tag=_TAG)
    async def progress(self, path: RedrivePath) -> RedriveAnswer:
        """How far a redrive is."""
        return self._answer(self._redrives.get(path.id))

    @route("DELETE", "/redrives/{id}", tag=_TAG)
    async def cancel(self, path: RedrivePath) -> RedriveAnswer:
        """Let no more letters go; those that have gone stay gone."""
        return self._answer(await self._redrives.cancel(path.id))

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
        )


def _filter(body: FilterBody) -> LetterFilter:
    place = "filter"
    offsets = body.offsets
    return LetterFilter(
        reason=body.reason,
        group=body.group,
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


def _line(letter: Letter) -> dict[str, Any]:
    record, said = letter.record, letter.obituary
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
