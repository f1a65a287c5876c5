"""A request of a client as one node hands it to another, and its answer: CallHttp between nodes.

What the client has sent goes along, and what the other node could not know: who the client is, the
id of the request, and that it was forwarded once already. Only nodes are believed such marks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_from_bytes

import msgspec

from goqueue.access.principals import ANONYMOUS, Principal, PrincipalKind
from goqueue.model.errors import PeerVersionError
from goqueue.protocols.http.api.errors import DeadlineExceededError
from goqueue.protocols.http.api.responses import RemoteError, Response
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goqueue.protocols.http.api.requests import Request
    from goqueue.topics.forwarding import Forwards
    from goqueue.wire.kafka.reading import Struct

_CLIENT: Final = b"x-goqueue-client"
_PART: Final = b"x-goqueue-part"
_PRINCIPAL: Final = b"x-goqueue-principal"
_MARKS: Final = frozenset({_CLIENT, _PART, _PRINCIPAL})
_OF_THE_CONNECTION: Final = frozenset(
    {
        b"authorization",
        b"connection",
        b"content-length",
        b"cookie",
        b"expect",
        b"host",
        b"keep-alive",
        b"origin",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"x-api-key",
        b"x-request-id",
    }
)
"""Headers that say how a request came, whose secrets stay here, or that are said anew."""
_HEADER_BYTES: Final = 200
"""What a header holds besides its bytes."""
_NODE: Final = Principal("node", PrincipalKind.NODE)
"""Whose the requests are that a node makes for itself."""
_NO_SUCH_ROUTE: Final = frozenset({"NoSuchPathError", "MethodNotAllowedError"})
_ASCII: Final = bytes(range(128)).decode()


def take_marks(request: Request, headers: Sequence[tuple[bytes, bytes]], sender: int) -> Principal:
    """Believe what the node `sender` says of a request; returns whose it is."""
    marks = {name: value for name, value in headers if name in _MARKS}
    request.sender = sender
    request.client_host = marks.get(_CLIENT, b"").decode("latin-1")
    request.is_part = _PART in marks
    said = marks.get(_PRINCIPAL)
    return ANONYMOUS if said is None else msgspec.json.decode(said, type=Principal)


async def forward(
    forwards: Forwards,
    request: Request,
    node_id: int,
    *,
    deadline_s: float,
    stays: Callable[[], bool],
    is_part: bool = False,
) -> Response:
    """The answer of a node to a request.

    Raises:
        DeadlineExceededError: there was none in time.
        PeerUnavailableError, ForwardingBusyError, PeerVersionError: as `Forwards.ask` says.
    """
    try:
        answer = await forwards.ask(
            node_id,
            ApiKey.CALL_HTTP,
            size_bytes=_size_bytes(request),
            deadline_s=deadline_s,
            stays=stays,
            **_fields(request, is_part=is_part),
        )
    except TimeoutError:
        raise DeadlineExceededError(
            f"no answer of node {node_id} within {deadline_s:g} s; what was asked for may still be "
            "done"
        ) from None
    if answer.error_name in _NO_SUCH_ROUTE:
        path = request.raw_path.decode("latin-1")
        symptom = f"it does not serve {request.method} {path[:100]}"
        forwards.check_version(node_id, symptom)
        raise PeerVersionError(f"node {node_id}: {symptom}, as this node does")
    return _response(answer)


def _size_bytes(request: Request) -> int:
    """What a request holds while it waits for its answer."""
    headers = sum(len(name) + len(value) for name, value in request.headers.items())
    headers += len(request.headers) * _HEADER_BYTES
    return len(request.target) + headers + len(request.body)


def _fields(request: Request, *, is_part: bool) -> dict[str, Any]:
    headers = {
        name: value
        for name, value in request.headers.items()
        if name not in _OF_THE_CONNECTION and name not in _MARKS
    }
    headers[b"x-request-id"] = (request.request_id or "").encode("latin-1")
    headers[_CLIENT] = request.client_host.encode("latin-1", "replace")
    principal = _NODE if request.may is None else request.may.principal
    headers[_PRINCIPAL] = msgspec.json.encode(principal)
    if is_part:
        headers[_PART] = b"1"
    target = request.target
    return {
        # What a HEAD leaves out is left out here, and its length is told.
        "method": "GET" if request.method == "HEAD" else request.method,
        "target": target.decode() if target.isascii() else quote_from_bytes(target, _ASCII),
        "headers": [
            {"name": _text(name), "value": _text(value)} for name, value in headers.items()
        ],
        "body": request.body,
    }


def _text(header: bytes) -> str:
    return header.decode("utf-8", "replace")


def _response(answer: Struct) -> Response:
    headers = [(each.name, each.value) for each in answer.headers]
    error = None
    if answer.error_name:
        details = tuple((each.name, each.value) for each in answer.error_details)
        error = RemoteError(answer.error_name, details)
    return Response(
        answer.status,
        bytes(answer.body),
        next((value for name, value in headers if name == "content-type"), ""),
        tuple(each for each in headers if each[0] != "content-type"),
        remote_error=error,
    )
