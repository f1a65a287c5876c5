"""Requests of the HTTP API over the link (`CallHttp`), and what their answers mean."""

from __future__ import annotations

import base64
import json
import logging
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import quote, urlencode

import msgspec

from goqueue.client.errors import BrokerError, UnexpectedAnswerError, error_named
from goqueue.client.link.codes import RetriableBrokerError, check_code
from goqueue.client.link.connection import check_version
from goqueue.client.times import moment_ms
from goqueue.model.errors import (
    CoordinatorLoadingError,
    GoQueueError,
    LeaderUnavailableError,
    NotCoordinatorError,
    NotLeaderError,
)
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.client.link.link import Link
    from goqueue.client.types import Moment
    from goqueue.wire.kafka.reading import Struct

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

LANE: Final = "administration"
"""A connection of its own: what takes long here holds up no message,"""
LONG_LANE: Final = "long administration"
"""and what may take minutes holds up nothing else."""

_VERSION: Final = 0
_REFUSED_FROM: Final = 400
_MAX_TARGET_BYTES: Final = 32_767
_MAX_BODY_BYTES: Final = 4_000_000
"""A broker closes a connection over which it gets a longer request."""
_JSON: Final = [{"name": "accept", "value": "application/json"}]
_ASKED_AGAIN: Final = frozenset({"GET", "PUT"})
_UNANSWERED: Final = b'"unanswered":['
"""In an answer that lacks the part of a node."""
_NOT_DONE: Final = (
    NotCoordinatorError,
    CoordinatorLoadingError,
    NotLeaderError,
    LeaderUnavailableError,
)
"""Another node serves it, or will in a moment; the one that was asked has changed nothing."""


class _Problem(msgspec.Struct):
    """The body of a refusal; the registry says `message`, everything else `detail`."""

    detail: str = ""
    message: str = ""
    retriable: bool = False


class _Unanswered(msgspec.Struct):
    node_id: int
    error: str = ""


class _Gathered(msgspec.Struct):
    """An answer that every node of a cluster has a part in."""

    unanswered: list[_Unanswered] = []


class Calls:
    """The HTTP API of a cluster, as the classes of this package call it.

    A path has `{}` for each of its names.
    """

    def __init__(self, link: Link) -> None:
        self.link = link

    async def get(self, kind: type[_T], path: str, *names: object, **query: object) -> _T:
        """What is at a path."""
        return await self.call(kind, "GET", _target(path, names, query))

    async def put(
        self, kind: type[_T], path: str, *names: object, body: object, **query: object
    ) -> _T:
        """Put something at a path."""
        return await self.call(kind, "PUT", _target(path, names, query), body)

    async def patch(self, kind: type[_T], path: str, name: object, body: object) -> _T:
        """Change something at a path; what the body says is the same when it is said twice."""
        return await self.call(kind, "PATCH", _target(path, (name,), {}), body, again=True)

    async def post(
        self,
        kind: type[_T],
        path: str,
        *names: object,
        body: object = None,
        again: bool = False,
        wait_s: float = 0.0,
        **query: object,
    ) -> _T:
        """Ask for something to be done; `again` says that it may be done twice."""
        target = _target(path, names, query)
        return await self.call(kind, "POST", target, body, again=again, wait_s=wait_s)

    async def delete(self, kind: type[_T], path: str, *names: object, **query: object) -> _T:
        """Delete what is at a path."""
        return await self.call(kind, "DELETE", _target(path, names, query))

    async def call(
        self,
        kind: type[_T],
        method: str,
        target: str,
        body: object = None,
        *,
        again: bool = False,
        wait_s: float = 0.0,
    ) -> _T:
        """One request and its answer.

        It waits for a connection where there is none. A request whose answer was lost is sent
        again only where that changes nothing: it may have been done.

        Args:
            kind: What the answer is; bytes are returned as they are.
            method: The method of HTTP.
            target: Path and query.
            body: Anything that JSON can say; None is none.
            again: Whether it may be sent again, beside GET and PUT.
            wait_s: How much longer than usual the answer may take.

        Raises:
            GoQueueError: what the broker says, or `BrokerUnavailableError`.
            TypeError, ValueError: the body is nothing that can be sent.
        """
        what = f"{method} {target.partition('?')[0]}"
        fields: dict[str, Any] = {
            "method": method,
            "target": target,
            "headers": _JSON,
            "body": b"" if body is None else _written(what, body),
        }
        link, lane = self.link, LONG_LANE if wait_s else LANE

        async def ask() -> Struct:
            answer = await link.ask(ApiKey.CALL_HTTP, _VERSION, lane=lane, wait_s=wait_s, **fields)
            return _accepted(answer)

        if again or method in _ASKED_AGAIN:
            answer = await link.retry(what, ask)
        else:
            answer = await self._call_once(what, lane, wait_s, fields)
        return _decoded(kind, what, bytes(answer.body))

    async def _call_once(
        self, what: str, lane: str, wait_s: float, fields: dict[str, Any]
    ) -> Struct:
        """Call what must not be done twice; again only where nothing was done."""
        link = self.link

        async def attempt() -> Struct | GoQueueError:
            connection = await link.to_any(lane)
            check_version(connection, ApiKey.CALL_HTTP, _VERSION)
            try:
                return _accepted(
                    await connection.ask(ApiKey.CALL_HTTP, _VERSION, wait_s=wait_s, **fields)
                )
            except _NOT_DONE:
                raise
            except GoQueueError as error:
                return error

        result = await link.retry(what, attempt)
        if isinstance(result, GoQueueError):
            raise result
        return result


def _accepted(answer: Struct) -> Struct:
    check_code(answer.error_code, "administration")
    if answer.error_name or (answer.status >= _REFUSED_FROM and not answer.body):
        raise _refusal(answer)
    return answer


def _refusal(answer: Struct) -> GoQueueError:
    try:
        problem = msgspec.json.decode(bytes(answer.body), type=_Problem)
    except (msgspec.DecodeError, UnicodeDecodeError):
        problem = _Problem(f"the broker answers {answer.status}")
    details = {each.name: each.value for each in answer.error_details}
    made = error_named(answer.error_name, problem.detail or problem.message, details)
    if type(made) is BrokerError and problem.retriable:
        return RetriableBrokerError(str(made))
    return made


def _decoded(kind: type[_T], what: str, body: bytes) -> _T:
    if kind is bytes:
        return cast("_T", body)
    try:
        if _UNANSWERED in body:
            _warn(what, msgspec.json.decode(body, type=_Gathered))
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise unexpected(what, error) from error


def _warn(what: str, answer: _Gathered) -> None:
    for missing in answer.unanswered:
        _log.warning("%s: the part of node %d is missing: %s", what, missing.node_id, missing.error)


def unexpected(what: str, error: Exception) -> UnexpectedAnswerError:
    """An answer is not what it has to be."""
    return UnexpectedAnswerError(
        f"{what} is answered with something else than expected ({error}): are client and broker of "
        "the same version?"
    )


def _written(what: str, body: object) -> bytes:
    """A body as JSON; not msgspec's own, which would take bytes for a text in base64.

    Raises:
        TypeError: something in it is nothing that JSON can say.
        ValueError: it is too long for a request.
    """
    try:
        written = json.dumps(body, default=_plain).encode()
    except TypeError as error:
        raise TypeError(f"{what}: {error}") from None
    if len(written) > _MAX_BODY_BYTES:
        raise ValueError(f"{what}: {len(written)} bytes, expected at most {_MAX_BODY_BYTES}")
    return written


def _plain(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    raise TypeError(f"{value!r} is {type(value).__name__}, expected text or a number")


def _target(path: str, names: tuple[object, ...], query: Mapping[str, object]) -> str:
    """Path and query; what is None is left out.

    Raises:
        TypeError: a name is no text.
        ValueError: a name is empty, or the whole is too long for a request.
    """
    for name in names:
        if not isinstance(name, str | int):
            raise TypeError(f"{name!r} is no name: expected text, not {type(name).__name__}")
        if name == "":
            raise ValueError(f"{path.format(*('…' for _ in names))}: a name is empty")
    target = "/v1" + path.format(*(quote(str(name), safe="") for name in names))
    given = {name: _text(value) for name, value in query.items() if value is not None}
    if given:
        target = f"{target}?{urlencode(given)}"
    if len(target) > _MAX_TARGET_BYTES:
        raise ValueError(
            f"the request has {len(target)} bytes of names and filters, expected at most "
            f"{_MAX_TARGET_BYTES}"
        )
    return target


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


# --- Values as JSON has them ---------------------------------------------------------------------


def time_ms(moment: Moment | None) -> int | None:
    """Milliseconds since the epoch."""
    return moment if moment is None or isinstance(moment, int) else moment_ms(moment)


def message_of(kind: type[_T], fields: dict[str, Any], **encodings: str) -> _T:
    """A message out of an answer: bytes for texts, and pairs for headers.

    Args:
        kind: What is made.
        fields: The answer.
        encodings: For each text the field that says whether it is base64.

    Raises:
        UnexpectedAnswerError: it is no message.
    """
    try:
        for name, encoding in encodings.items():
            _take_bytes(fields, name, encoding)
        if "headers" in fields:
            for each in fields["headers"]:
                _take_bytes(each, "value", "encoding")
            fields["headers"] = [(each["name"], each.get("value")) for each in fields["headers"]]
        return msgspec.convert(fields, kind)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise unexpected(kind.__name__, error) from error


def _take_bytes(fields: dict[str, Any], name: str, encoding: str) -> None:
    text = fields.get(name)
    how = fields.pop(encoding, "text")
    if text is not None:
        fields[name] = base64.b64decode(text) if how == "base64" else text.encode()
