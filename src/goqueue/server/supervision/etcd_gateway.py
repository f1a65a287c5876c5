"""Questions to a member of etcd without an event loop, for whoever starts and stops one."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from goqueue.server.etcd.command import EtcdTls

ANSWER_S: Final = 1.0
"""What one request may take: neither a start nor a stop waits for members that are away."""
FAILURES: Final = (OSError, http.client.HTTPException, ValueError, KeyError)
"""What a question may end with."""


def ask(url: str, tls: EtcdTls | None, path: str, body: dict[str, Any] | None = None) -> Any:
    """The answer of etcd's JSON gateway.

    Raises:
        OSError: there is none, or it is an error.
    """
    return _answer(url, tls, "POST", path, json.dumps(body or {}))


def get(url: str, tls: EtcdTls | None, path: str) -> Any:
    """What a member tells other members. Raises like `ask`."""
    return _answer(url, tls, "GET", path, None)


def _answer(url: str, tls: EtcdTls | None, method: str, path: str, body: str | None) -> Any:
    place = urlsplit(url)
    host, port = place.hostname or "", place.port
    if tls is None:
        connection = http.client.HTTPConnection(host, port, timeout=ANSWER_S)
    else:
        context = ssl.create_default_context(cafile=tls.ca_file)
        context.load_cert_chain(tls.cert_file, tls.key_file)
        connection = http.client.HTTPSConnection(host, port, timeout=ANSWER_S, context=context)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise OSError(f"{answer.status} {content[:200].decode(errors='replace')}")
    return json.loads(content)
