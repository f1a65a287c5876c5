"""Requests to the HTTP API of a node on this machine, with TLS where it has that.

A node that asks its clients for certificates is shown its own: whoever runs it here may read that.
"""

from __future__ import annotations

import http.client
import os
import ssl
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PROBE_S: Final = 2.0
_CERTIFICATE: Final = ("tls-cert-file", "tls-key-file")
"""The flags that name it; as variables they are called like them."""
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class HttpProbe:
    """Asks one node."""

    def __init__(self, host: str, port: int, flags: Sequence[str]) -> None:
        """`flags` are those that the node is started with."""
        self._host = host
        self._port = port
        self._flags = flags
        self.environment: Mapping[str, str] = os.environ
        """What the node is started with, too."""
        self.has_tls = False
        """Whether it answered over TLS when it was last asked."""

    @property
    def root_key(self) -> str | None:
        """The key with all rights that the node is started with, if it is."""
        return self.environment.get("GOQUEUE_API_ROOT_KEY")

    def get(self, path: str, headers: Mapping[str, str] = _NO_HEADERS) -> tuple[int, bytes]:
        """The status and the body of an answer; status 0 without one."""
        plain = http.client.HTTPConnection(self._host, self._port, timeout=_PROBE_S)
        try:
            answer = _answer(plain, path, headers)
            self.has_tls = False
        except (http.client.HTTPException, ConnectionResetError):  # as somebody who expects TLS
            try:
                secure = http.client.HTTPSConnection(
                    self._host, self._port, timeout=_PROBE_S, context=self._context()
                )
                answer = _answer(secure, path, headers)
                self.has_tls = True
            except (OSError, http.client.HTTPException):
                return 0, b""
        except OSError:
            return 0, b""
        return answer

    def _context(self) -> ssl.SSLContext:
        context = ssl._create_unverified_context()  # noqa: S323, SLF001 - it is our own child
        cert_file, key_file = map(self._named, _CERTIFICATE)
        if cert_file and key_file:
            context.load_cert_chain(cert_file, key_file, "")  # nobody is asked for a passphrase
        return context

    def _named(self, setting: str) -> str | None:
        """What the node is told of a setting, by a flag or a variable."""
        flag = f"--{setting}"
        for at, each in enumerate(self._flags):
            name, equals, value = each.partition("=")
            if name == flag:
                return value if equals else next(iter(self._flags[at + 1 : at + 2]), None)
        return self.environment.get("GOQUEUE_" + setting.replace("-", "_").upper())


def _answer(
    connection: http.client.HTTPConnection, path: str, headers: Mapping[str, str]
) -> tuple[int, bytes]:
    try:
        connection.request("GET", path, headers=dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
