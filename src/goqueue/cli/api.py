"""A small client of the HTTP API, on the standard library: a command must start at once.

An HTTP library with all its comforts takes longer to import than most commands take to run.
"""

from __future__ import annotations

import http.client
import json
import select
import socket
import ssl
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote, urlencode, urlsplit

import goqueue
from goqueue.cli.errors import RefusedError, UnreachableError

if TYPE_CHECKING:
    from types import TracebackType

    from goqueue.cli.contexts import Target

_OK: Final = range(200, 300)
_STALE: Final = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)
"""How a connection that the server has closed meanwhile shows itself."""


class Api:
    """One server over one connection, which is opened at the first request."""

    def __init__(self, target: Target) -> None:
        self.target = target
        parts = urlsplit(target.server)
        self._base = parts.path.rstrip("/")
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._connection = kind(parts.hostname or "", parts.port, timeout=target.timeout_s)
        self._headers = {
            "accept": "application/json",
            "user-agent": f"goqueue/{goqueue.__version__}",
        }
        if target.api_key is not None:
            self._headers["x-api-key"] = target.api_key

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

    def get(self, path: str, *names: object, **query: object) -> Any:
        """What is at a path; `names` fill its `{}`, and a query that is None is left out."""
        given = {name: value for name, value in query.items() if value is not None}
        suffix = f"?{urlencode(given)}" if given else ""
        return self._answer("GET", _path(path, names) + suffix, mentioned=names)

    def post(self, path: str, *names: object, body: object) -> Any:
        """Send something."""
        return self._answer("POST", _path(path, names), body, names)

    def patch(self, path: str, *names: object, body: object) -> Any:
        """Change something."""
        return self._answer("PATCH", _path(path, names), body, names)

    def put(self, path: str, *names: object, body: object) -> Any:
        """Replace something."""
        return self._answer("PUT", _path(path, names), body, names)

    def delete(self, path: str, *names: object) -> Any:
        """Remove something."""
        return self._answer("DELETE", _path(path, names), mentioned=names)

    def text(self, path: str) -> str:
        """Something that is no JSON."""
        status, _, body = self._exchange("GET", path, None)
        if status not in _OK:
            raise self._refusal(status, body)
        return body.decode()

    def probe(self, path: str) -> tuple[int, Any]:
        """The status and the answer of a path that has more to say than yes or no."""
        status, kind, body = self._exchange("GET", path, None)
        return status, self._decoded(status, kind, body)

    def _answer(
        self, method: str, path: str, body: object = None, mentioned: tuple[object, ...] = ()
    ) -> Any:
        status, kind, answer = self._exchange(method, path, body)
        if status not in _OK:
            raise self._refusal(status, answer, (*mentioned, *_topics_in(body)))
        return self._decoded(status, kind, answer)

    def _exchange(self, method: str, path: str, body: object) -> tuple[int, str, bytes]:
        data = None if body is None else json.dumps(body).encode()
        headers = (
            self._headers if data is None else {**self._headers, "content-type": "application/json"}
        )
        self._drop_ended()
        reused = self._connection.sock is not None
        try:
            try:
                return self._once(method, path, data, headers)
            except _STALE:
                # Nothing was asked of a connection that had been closed before; only a request
                # that changes nothing is asked again of one that was closed meanwhile.
                if not reused or method != "GET":
                    raise
                self._connection.close()
                return self._once(method, path, data, headers)
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise UnreachableError(self._unreachable(error)) from error

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
        response = self._connection.getresponse()
        return response.status, response.headers.get("content-type", ""), response.read()

    def _decoded(self, status: int, kind: str, body: bytes) -> Any:
        try:
            if "json" in kind:
                return json.loads(body)
        except ValueError:
            pass
        raise UnreachableError(
            f"{self.target.server} answered {status} without JSON: is it a GoQueue server?"
        )

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
                f"{self.target.server} answered {status} "
                f"{http.client.responses.get(status, '')}: is it a GoQueue server?"
            )

    def _unreachable(self, error: Exception) -> str:
        url, source = self.target.server, self.target.source
        if isinstance(error, TimeoutError):
            return f"no answer from {url} within {self.target.timeout_s:g} s (see --timeout)"
        if isinstance(error, ssl.SSLCertVerificationError):
            return (
                f"the certificate of {url} is not trusted ({error.verify_message}): name the file "
                "of whoever signed it in SSL_CERT_FILE"
            )
        if isinstance(error, ssl.SSLError):
            return f"{url} does not speak TLS as expected ({error.reason or error}): is it https?"
        if isinstance(error, socket.gaierror):
            return f"{url} (from {source}) has a host that nobody knows: {error.strerror}"
        if isinstance(error, ConnectionRefusedError):
            return (
                f"nobody answers at {url} (from {source}). Start a server with `goqueue server`, "
                "or name another one with --server, GOQUEUE_SERVER or `goqueue config use-context`"
            )
        reason = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
        return f"the connection to {url} (from {source}) failed: {reason}"


def _path(template: str, names: tuple[object, ...]) -> str:
    return template.format(*(quote(str(name), safe="") for name in names))


def _topics_in(body: object) -> list[object]:
    if not isinstance(body, dict):
        return []
    return [*body.get("topics", ()), *([body["topic"]] if "topic" in body else ())]
