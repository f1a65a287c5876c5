"""Publishing messages, with how they are to be delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.delivery import Priority
from goqueue.model.errors import GoQueueError, PriorityError
from goqueue.protocols.http.api.codecs import Encoding, duration_ms, time_ms, to_bytes
from goqueue.protocols.http.api.errors import FieldError
from goqueue.protocols.http.api.paths import TopicPath
from goqueue.protocols.http.api.places import LOCAL
from goqueue.protocols.http.api.problems import kind_of
from goqueue.protocols.http.api.rights import WRITE, on_topic
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.limits import MAX_TIME_MS
from goqueue.protocols.http.messages.message_shapes import (
    MessageIn,
    PublishAnswer,
    PublishBody,
    PublishResult,
    priority_label,
)
from goqueue.publishing.new_messages import MessageResult, NewMessage
from goqueue.publishing.requests import Acks
from goqueue.runtime.tasks import Turns

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker

PUBLISH_BODY_BYTES: Final = 16 * 1024 * 1024
TURN_MESSAGES: Final = 1000
"""Messages that are worked on in one go: a few milliseconds. A request with more waits for a turn
of the event loop after so many of them."""
_MESSAGE_FIELDS: Final = frozenset(
    {"partition", "value", "headers", "priority", "deliver_at", "delay", "ttl"}
)
_PLAIN: Final = (None, None, None, None, None)
"""Of a message that says nothing about its delivery."""
_NORMAL: Final = Priority.NORMAL.label
_ACKS: Final = {"all": Acks.ALL, "leader": Acks.LEADER, "none": Acks.NONE}


class PublishRoutes:
    """Publishing."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._turns = Turns()

    @route(
        "POST",
        "/topics/{topic}/messages",
        right=on_topic(WRITE),
        tag="messages",
        max_body_bytes=PUBLISH_BODY_BYTES,
        place=LOCAL,
    )
    async def publish(self, path: TopicPath, body: PublishBody) -> PublishAnswer:
        """Publish messages.

        The response is 200 even if some messages were refused: check the `status` of each. An
        invalid request is refused as a whole, and nothing of it is stored.
        """
        now_ms = self._broker.clock.now_ms()
        given = _Given(now_ms)
        writer, acks = self._broker.writer, _ACKS[body.acks]
        is_small = len(body.messages) <= TURN_MESSAGES
        if is_small:
            given.add(body.messages)
        else:
            for start in range(0, len(body.messages), TURN_MESSAGES):
                async with self._turns.turn():
                    given.add(body.messages[start : start + TURN_MESSAGES])
        checked = await writer.checked(path.topic, given.messages)
        if is_small and not checked:  # what does not fit is sorted out in turns
            publishing = writer.begin(path.topic, given.messages, acks, checked=checked)
            return given.answer(await publishing.settled())
        async with self._turns.turn():
            publishing = writer.begin(path.topic, given.messages, acks, checked=checked)
        found = await publishing.settled()
        async with self._turns.turn():
            return given.answer(found)


class _Given:
    """The messages of a request on their way to the broker, and the results on their way back."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._count = 0
        self._refused: dict[int, PriorityError] = {}
        self.messages: list[NewMessage] = []

    def add(self, sent: list[MessageIn]) -> None:
        """Some more of the request."""
        for at, each in enumerate(sent, self._count):
            try:
                self.messages.append(new_message(each, at, self._now_ms))
            except PriorityError as error:
                self._refused[at] = error
        self._count += len(sent)

    def answer(self, found: list[MessageResult]) -> PublishAnswer:
        """A result for each, in their order."""
        results = zip(self.messages, found, strict=True)
        refused = self._refused
        return PublishAnswer(
            [
                _refusal(refused[at], at) if at in refused else _result(*next(results), at)
                for at in range(self._count)
            ]
        )


def new_message(message: MessageIn, at: int, now_ms: int) -> NewMessage:
    """The message as it is published.

    Raises:
        FieldError: something in it does not decode.
        PriorityError: there is no such priority.
    """
    value, key, timestamp = message.value, message.key, message.timestamp
    found = NewMessage(
        None if value is None else _bytes(value, message.encoding, at, "value"),
        None if key is None else _bytes(key, message.key_encoding, at, "key"),
        _headers(message, at) if message.headers else (),
        message.partition,
        None
        if timestamp is None
        else time_ms(timestamp, f"messages[{at}].timestamp", location="body"),
    )
    times = (message.delay, message.deliver_at, message.deliver_at_camel)
    if (*times, message.priority, message.ttl) == _PLAIN:
        return found
    priority = None if message.priority is None else Priority.parse(str(message.priority))
    return found._replace(
        deliver_at_ms=_due_ms(message, at, now_ms),
        priority=priority,
        ttl_ms=None if message.ttl is None else _milliseconds(message.ttl, at, "ttl"),
    )


def _due_ms(message: MessageIn, at: int, now_ms: int) -> int | None:
    given = {
        "delay": message.delay,
        "deliver_at": message.deliver_at,
        "deliverAt": message.deliver_at_camel,
    }
    named = [name for name, value in given.items() if value is not None]
    if not named:
        return None
    if len(named) > 1:
        raise FieldError(
            f"{' and '.join(named)} are both given: expected one of them",
            field=f"messages[{at}].{named[-1]}",
            expected="one of delay and deliver_at",
        )
    (name,) = named
    if message.delay is not None:
        return now_ms + _milliseconds(message.delay, at, name)
    moment = message.deliver_at if message.deliver_at is not None else message.deliver_at_camel
    assert moment is not None
    return time_ms(moment, f"messages[{at}].{name}", location="body")


def _milliseconds(value: int | str, at: int, field: str) -> int:
    return duration_ms(
        value, f"messages[{at}].{field}", at_most_ms=MAX_TIME_MS // 2, location="body"
    )


def _bytes(text: str, encoding: Encoding, at: int, field: str) -> bytes:
    if encoding == "text" and text.isascii():
        return text.encode()
    return to_bytes(text, encoding, f"messages[{at}].{field}")


def _headers(message: MessageIn, at: int) -> tuple[tuple[str, bytes | None], ...]:
    place = f"messages[{at}].headers"
    if isinstance(message.headers, dict):
        return tuple(
            (_header_name(name, place), to_bytes(text, "text", f"{place}.{name}"))
            for name, text in message.headers.items()
        )
    return tuple(
        (
            _header_name(each.name, f"{place}[{number}].name"),
            None
            if each.value is None
            else to_bytes(each.value, each.encoding, f"{place}[{number}].value"),
        )
        for number, each in enumerate(message.headers)
    )


def _header_name(name: str, field: str) -> str:
    to_bytes(name, "text", field)
    return name


def _result(message: NewMessage, result: MessageResult, at: int) -> PublishResult:
    if result.error is not None:
        return _refusal(result.error, at)
    if message.priority is not None:
        priority = message.priority.label
    else:
        priority = priority_label(message.headers) if message.headers else _NORMAL
    if result.delayed_id is None:
        return PublishResult(
            200, result.partition, result.offset, result.timestamp_ms, priority, delayed=False
        )
    return PublishResult(
        200,
        result.partition,
        result.delayed_id,
        result.timestamp_ms,
        priority,
        delayed=True,
        deliver_at=result.deliver_at_ms,
        id=result.delayed_id,
    )


def _refusal(error: GoQueueError, at: int) -> PublishResult:
    status, code, field = kind_of(error)
    return PublishResult(
        status,
        code=code,
        error=str(error),
        field=f"messages[{at}].{field}" if field in _MESSAGE_FIELDS else field,
        retriable=error.retriable,
    )
