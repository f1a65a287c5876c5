"""The reference page of rights: which right each request of each protocol needs.

`python -m goqueue.server.rights_reference > docs/reference/rights.md`; a test holds the page to it.
It is made from what handlers declare (`right=` of `@api` and `@route`, the table of gRPC).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, Protocol

from goqueue.protocols.grpc.rights import RIGHTS
from goqueue.protocols.http import routes as http_routes
from goqueue.protocols.http.api.route import routes_of
from goqueue.protocols.kafka.api_reference import served_specs
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goqueue.access.rights import Right
    from goqueue.protocols.http.api.route import Route

    class Needs(Protocol):
        """What handlers of every protocol declare."""

        def rows(self) -> Iterator[tuple[tuple[Right, ...], str]]:
            """Rights of which one is needed, and of what."""


_INTRODUCTION: Final = """\
# Rights

Which right each request needs where `auth.enabled` is true; made from what the handlers declare.
Resources and operations are Kafka's; how rules and roles grant them is in
[Security](../how-to/security.md).

- A right is written as the operation and the resource, such as READ topic. Where several stand in
  one line, a request needs each of them; with *or* between them, one.
- A refusal is TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED,
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED or CLUSTER_AUTHORIZATION_FAILED for Kafka clients, 403 for
  HTTP and PERMISSION_DENIED for gRPC, in the same words whether the resource exists or not.
- Kafka requests of many topics or groups are answered for those that the client may use; each of
  the others has the code of its refusal.
- Lists show what their client may describe. What is found by a number, such as a schema or a
  redrive, is not found by those who may not see it.
- READ, WRITE, DELETE and ALTER include DESCRIBE; ALTER_CONFIGS includes DESCRIBE_CONFIGS.
- Dead letters, delayed messages, traces and schemas have the rights of their topic. The subject of
  a schema belongs to the topic that it is named after: `orders-value` and `orders-key` to `orders`.
"""


def reference() -> str:
    """The page."""
    parts = [_INTRODUCTION, "## Kafka\n", *_table("API", _kafka())]
    parts += ["", "## HTTP\n", *_table("route", _http())]
    parts += ["", "## gRPC\n", *_table("method", _grpc()), ""]
    return "\n".join(parts)


def _table(head: str, rows: Iterable[tuple[str, Needs]]) -> Iterator[str]:
    yield f"| {head} | right |"
    yield "| --- | --- |"
    for name, needs in rows:
        yield f"| {name} | {text_of(needs)} |"


def text_of(needs: Needs) -> str:
    """Rights in words, as the tables of the documentation have them."""
    return "; ".join(filter(None, (_row(*row) for row in needs.rows())))


def _row(rights: tuple[Right, ...], note: str) -> str:
    named = " or ".join(
        f"{each.operation.name} {each.resource.name.lower().replace('_', ' ')}" for each in rights
    )
    if not named:
        return note
    return f"{named} ({note})" if note else named


def _kafka() -> Iterator[tuple[str, Needs]]:
    specs = served_specs()
    for key in sorted(specs):
        name = "".join(part.capitalize() for part in ApiKey(key).name.split("_"))
        yield f"{name} ({key})", specs[key].right


def _http() -> Iterator[tuple[str, Needs]]:
    found: dict[tuple[str, str], Route] = {}
    for family in vars(http_routes).values():
        if isinstance(family, type) and family.__module__.startswith("goqueue.protocols.http."):
            for declared in _declared(family):
                found[declared.path, declared.method] = declared
    for (path, method), declared in sorted(found.items()):
        yield f"`{method} {path}`", declared.right


def _declared(family: type[Any]) -> Iterator[Route]:
    for name in dir(family):
        yield from routes_of(getattr(family, name))


def _grpc() -> Iterator[tuple[str, Needs]]:
    for method, needs in RIGHTS.items():
        yield f"`{method.rpartition('.')[2]}`", needs


if __name__ == "__main__":
    sys.stdout.write(reference())
