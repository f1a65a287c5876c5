"""A small client of the HTTP API: a request, and its answer as the API declares it.

    topic = api.get(TopicInfo, "/topics/{}", name)

It stands on the standard library: a command must start at once, and an HTTP library with all its
comforts takes longer to import than most commands take to run.
"""

from __future__ import annotations

import http.client
import json
import select
import socket
import ssl
from typing import TYPE_CHECKING, Final, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

import goqueue
from goqueue.cli.errors import RefusedError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from goqueue.cli.contexts import Target

_T = TypeVar("_T")

_OK: Final = range(200, 300)
_STALE: Final = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)
"""How a connection that the server has closed meanwhile shows itself."""


class Api:
    """One server over one connection, which is opened at the first request.

    Of several servers it is the first that lets itself be connected to.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._use(target.servers[0])
        self._headers = {
            "accept": "application/json",
            "user-agent": f"goqueue/{goqueue.__version__}",
        }
        if target.api_key is not None:
            self._headers["x-api-key"] = target.api_key

    def _use(self, server: str) -> None:
        """Ask this server from now on."""
        self.server = server
        parts = urlsplit(server)
        self._base = parts.path.rstrip("/")
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        host = _host(parts.hostname or "")
        self._connection = kind(host, parts.port, timeout=self.target.timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        self._connection.close()

    def get(self, kind: type[_T], path: str, *names: object, **query: object) -> _T:
        """What is at a path; `names` fill its `{}`, and a query that is None is left out."""
        return self._answer(kind, "GET", _path(path, names, query), mentioned=names)

    def post(self, kind: type[_T], path: str, *names: object, body: object) -> _T:
        """Send something."""
        return self._answer(kind, "POST", _path(path, names), body, names)

    def patch(self, kind: type[_T], path: str, *names: object, body: object) -> _T:
        """Change something."""
        return self._answer(kind, "PATCH", _path(path, names), body, names)

    def put(self, kind: type[_T], path: str, *names: object, body: object) -> _T:
        """Replace something."""
        return self._answer(kind, "PUT", _path(path, names), body, names)

    def delete(self, kind: type[_T], path: str, *names: object, **query: object) -> _T:
        """Remove something."""
        return self._answer(kind, "DELETE", _path(path, names, query), mentioned=names)

    def text(self, path: str) -> str:
        """Something that is no JSON."""
        status, _, body = self._exchange("GET", path, None)
        if status not in _OK:
            raise self._refusal(status, body)
        return body.decode()

    def probe(self, kind: type[_T], path: str) -> tuple[int, _T]:
        """The status and the answer of a path that has more to say than yes or no."""
        status, media_type, body = self._exchange("GET", path, None)
        return status, self._decoded(kind, status, media_type, body)

    def _answer(
        self,
        kind: type[_T],
        method: str,
        path: str,
        body: object = None,
        mentioned: tuple[object, ...] = (),
    ) -> _T:
        status, media_type, answer = self._exchange(method, path, body)
        if status not in _OK:
            raise self._refusal(status, answer, (*mentioned, *_topics_in(body)))
        return self._decoded(kind, status, media_type, answer)

    def _exchange(self, method: str, path: str, body: object) -> tuple[int, str, bytes]:
        data = None if body is None else json.dumps(body).encode()
        headers = (
            self._headers if data is None else {**self._headers, "content-type": "application/json"}
        )
        self._drop_ended()
        reused = self._connection.sock is not None
        try:
            if not reused:
                self._connect()
            try:
                return self._once(method, path, data, headers)
            except _STALE:
                # Nothing was asked of a connection that had been closed before; only a request
                # that changes nothing is asked again of one that was closed meanwhile.
                if not reused or method != "GET":
                    raise
                self._connection.close()
                self._connect()
                return self._once(method, path, data, headers)
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise UnreachableError(self._unreachable(error)) from error

    def _connect(self) -> None:
        """Open the connection: to this server, or else to the next. Raises what the last raised."""
        servers = self.target.servers
        first = servers.index(self.server)
        failure: Exception | None = None
        for each in servers[first:] + servers[:first]:
            if each != self.server:
                self._use(each)
            try:
                self._connection.connect()
            except (OSError, http.client.HTTPException) as error:
                failure = error
            else:
                return
        if failure is not None:
            raise failure

    def _drop_ended(self) -> None:
        """Close a connection that the server has closed, as it does after a minute of silence.

        Between two requests nothing can be there to be read, except the end.
        """
        sock = self._connection.sock
        if sock is not None:
            look = select.poll()
            look.register(sock, select.POLLIN)
            if look.poll(0):
                self._connection.close()

    def _once(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str]
    ) -> tuple[int, str, bytes]:
        self._connection.request(method, self._base + path, data, headers)
        # A response that is closed only when it is forgotten would lose a Ctrl-C at that moment.
        with self._connection.getresponse() as response:
            return response.status, response.headers.get("content-type", ""), response.read()

    def _decoded(self, kind: type[_T], status: int, media_type: str, body: bytes) -> _T:
        server = self.server
        try:
            if "json" in media_type:
                return msgspec.json.decode(body, type=kind)
        except msgspec.ValidationError as error:
            raise UnreachableError(
                f"{server} answered {status} with an unexpected response ({error}): compare the "
                "versions of client and server with `goqueue version`"
            ) from error
        except msgspec.DecodeError:
            pass
        raise UnreachableError(f"{server} answered {status} without JSON: is it a GoQueue server?")

    def _refusal(self, status: int, body: bytes, mentioned: tuple[object, ...] = ()) -> Exception:
        try:
            problem = json.loads(body)
            return RefusedError(
                str(problem["message"] if "error_code" in problem else problem["detail"]),
                status=status,
                code=str(problem.get("code", problem.get("error_code", ""))),
                field=problem.get("field"),
                mentioned=tuple(map(str, mentioned)),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return UnreachableError(
                f"{self.server} answered {status} "
                f"{http.client.responses.get(status, '')}: is it a GoQueue server?"
            )

    def _unreachable(self, error: Exception) -> str:
        url, source = " and ".join(self.target.servers), self.target.source
        if isinstance(error, TimeoutError):
            return f"no answer from {url} within {self.target.timeout_s:g} s (see --timeout)"
        if isinstance(error, ssl.SSLCertVerificationError):
            return (
                f"the certificate of {url} is not trusted ({error.verify_message}): set "
                "SSL_CERT_FILE to the certificate of its authority"
            )
        if isinstance(error, ssl.SSLError):
            return f"the TLS handshake with {url} failed ({error.reason or error}): is it HTTPS?"
        if isinstance(error, socket.gaierror):
            return f"{url} (from {source}) has an unknown host: {error.strerror}"
        if isinstance(error, ConnectionRefusedError):
            return (
                f"cannot connect to {url} (from {source}): connection refused. Start a server with "
                "`goqueue server`, or name another one with --server, GOQUEUE_SERVER or "
                "`goqueue config use-context`"
            )
        if isinstance(error, http.client.RemoteDisconnected) and url.startswith("http:"):
            return (
                f"{url} (from {source}) closed the connection without a response: if the server "
                f"has TLS, use https{url.removeprefix('http')}"
            )
        reason = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
        return f"the connection to {url} (from {source}) failed: {reason}"


def _host(name: str) -> str:
    """Where to connect: `localhost` is this machine also where no resolver knows it (RFC 6761)."""
    if name == "localhost":
        try:
            socket.getaddrinfo(name, None)
        except socket.gaierror:
            return "127.0.0.1"
    return name


def _path(
    template: str, names: tuple[object, ...], query: Mapping[str, object] | None = None
) -> str:
    given = {name: value for name, value in (query or {}).items() if value is not None}
    path = template.format(*(quote(str(name), safe="") for name in names))
    return f"{path}?{urlencode(given)}" if given else path


def _topics_in(body: object) -> list[object]:
    if not isinstance(body, dict):
        return []
    return [*body.get("topics", ()), *([body["topic"]] if "topic" in body else ())]
