"""From a request to the arguments of a handler, and from what it returns to an answer.

The types of a handler are read once, at its first request: a server that nobody asks over HTTP
pays for none of it.
"""

from __future__ import annotations

import typing
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import parse_qsl

import msgspec

from goqueue.protocols.http.api.errors import FieldError, MalformedBodyError, MalformedRequestError
from goqueue.protocols.http.api.handler_types import Types
from goqueue.protocols.http.api.problems import field_error
from goqueue.protocols.http.api.responses import Response, Stream, encode
from goqueue.protocols.permissions import UNRESTRICTED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.model.errors import GoQueueError
    from goqueue.protocols.http.api.requests import Request
    from goqueue.protocols.http.api.route import Route

_MAX_QUERY_FIELDS: Final = 100


class Endpoint:
    """One route with its handler."""

    def __init__(self, route: Route, handler: Callable[..., Awaitable[Any]]) -> None:
        self.route = route
        self.handler = handler

    @cached_property
    def types(self) -> Types:
        """What the handler's annotations say."""
        hints = typing.get_type_hints(self.handler)
        returned = hints.pop("return", None)
        return Types(
            hints.get("path"),
            hints.get("query"),
            hints.get("body"),
            "request" in hints,
            None if returned in {Response, Stream} else returned,
            returned is Stream,
            "may" in hints,
        )

    @cached_property
    def _parameters(self) -> list[str]:
        return [part[1:-1] for part in self.route.path.split("/") if part.startswith("{")]

    def bind_path(self, values: list[str]) -> msgspec.Struct | None:
        """What the path says, checked.

        Raises:
            FieldError: a part is not what it has to be.
        """
        if self.types.path is None:
            return None
        named = dict(zip(self._parameters, values, strict=True))
        return _convert(named, self.types.path, "path")

    def arguments(self, request: Request, path: msgspec.Struct | None) -> dict[str, Any]:
        """What the handler is called with.

        Raises:
            FieldError, MalformedBodyError, MalformedRequestError: the request is not what it has
                to be.
        """
        arguments: dict[str, Any] = {}
        types = self.types
        if path is not None:
            arguments["path"] = path
        if types.query is not None:
            arguments["query"] = self._bind_query(request.target.partition(b"?")[2])
        if types.body is not None:
            arguments["body"] = self._bind_body(request.body)
        if types.request:
            arguments["request"] = request
        if types.may:
            arguments["may"] = request.may or UNRESTRICTED
        return arguments

    def response(self, request: Request, answer: object) -> Response | Stream:
        """The response for what the handler returned."""
        if type(answer) is Response or type(answer) is Stream:
            return answer
        if self.route.dialect is not None:
            return self.route.dialect.answer(request, self.route.status, encode(answer))
        return Response(self.route.status, encode(answer))

    # --- The query -----------------------------------------------------------------------------

    @cached_property
    def _flags(self) -> frozenset[str]:
        """Fields that are true or false, so that `?verbose` alone means yes."""
        assert self.types.query is not None
        fields = msgspec.structs.fields(self.types.query)
        return frozenset(
            each.encode_name for each in fields if bool in (each.type, *typing.get_args(each.type))
        )

    def _bind_query(self, raw: bytes) -> msgspec.Struct:
        assert self.types.query is not None
        named = dict(_parse_query(raw)) if raw else {}
        for name in self._flags & named.keys():
            named[name] = named[name] or "true"
        return _convert(named, self.types.query, "query")

    # --- The body ------------------------------------------------------------------------------

    @cached_property
    def _decode(self) -> Callable[[bytes], msgspec.Struct]:
        assert self.types.body is not None
        return msgspec.json.Decoder(self.types.body).decode

    def _bind_body(self, body: bytes) -> msgspec.Struct:
        try:
            return self._decode(body)
        except msgspec.ValidationError as error:
            raise field_error(error, "body") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if body:
                raise MalformedBodyError(f"the body is not JSON: {error}") from error
        # Without a body, whatever may be left out is left out.
        assert self.types.body is not None
        return _convert({}, self.types.body, "body", strict=True)


class RefusingEndpoint(Endpoint):
    """A route that the node does not serve, whatever it is sent."""

    def __init__(
        self, route: Route, handler: Callable[..., Awaitable[Any]], refusal: GoQueueError
    ) -> None:
        super().__init__(route, handler)
        self._refusal = refusal

    def arguments(self, request: Request, path: msgspec.Struct | None) -> NoReturn:
        """Raises the refusal."""
        del request, path
        raise type(self._refusal)(*self._refusal.args)


def _convert(
    named: dict[str, str], kind: type[msgspec.Struct], location: str, *, strict: bool = False
) -> msgspec.Struct:
    try:
        return msgspec.convert(named, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise field_error(error, location) from error


def _parse_query(raw: bytes) -> list[tuple[str, str]]:
    try:
        text = raw.decode()
        return parse_qsl(
            text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_QUERY_FIELDS
        )
    except UnicodeDecodeError as error:
        raise FieldError(
            "the query is not UTF-8", field="query", location="query", expected="UTF-8"
        ) from error
    except ValueError as error:
        raise MalformedRequestError(
            f"the query has more than {_MAX_QUERY_FIELDS} fields"
        ) from error
