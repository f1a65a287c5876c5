"""Which node of a cluster answers a request: what the `place` of a `@route` says.

    @route("GET", "/groups/{group}", tag="groups", place=group("path.group"))
    async def describe(self, path: GroupPath) -> GroupInfo: ...

A handler is called on the node where its place is, with its usual arguments, and answers for what
that node coordinates. It raises a retriable error when the node does not coordinate that (any
more), and the client tries again; a request is forwarded once at most. On one node everything is
there, and nobody looks at places.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import msgspec

from goqueue.delays.entries import unit_of
from goqueue.protocols.http.api.gathered import is_gathered
from goqueue.protocols.lookups import (
    Lookup,
    group_lookup,
    transaction_lookup,
    unit_lookup,
    writer_lookup,
    wrong_again,
)

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.model.errors import GoQueueError
    from goqueue.protocols.http.api.handler_types import Types
    from goqueue.protocols.http.api.parts import Absent, Part, Parts
    from goqueue.protocols.http.api.responses import Response, Stream

Arguments: TypeAlias = Mapping[str, Any]
"""What the handler is called with: `path`, `query` and `body`."""


class PlacedCall(Protocol):
    """One request, as far as its place may know it."""

    broker: Broker
    arguments: Arguments
    sender: int | None
    """The node that has forwarded it, if one has."""
    is_part: bool
    """That node wants this node's part of an answer that it puts together."""

    async def here(self) -> Response | Stream:
        """Let this node answer."""

    async def there(self, node_id: int, stays: Callable[[], bool]) -> Response:
        """Let another node answer, as long as it `stays` the one to ask."""

    async def parts(self, absent: Absent, query: Any = None) -> Parts:
        """What all nodes have answered, each for its part; to another `query`, if one is given.

        Raises what the handler does on this node; when nobody has a part, why.
        """

    async def part(self, node_id: int, query: Any) -> Any:
        """What one of them answers to a query. Raises when it does not answer."""

    def response(self, answer: Any, parts: Parts) -> Response | Stream:
        """The whole answer; it names the nodes whose part is missing."""


class Place(Protocol):
    """Where requests of a route are answered."""

    async def answer(self, call: PlacedCall) -> Response | Stream:
        """Let the right node answer. Raises what handlers do."""

    def check(self, types: Types) -> None:
        """Raise `ValueError` where it looks for what requests of the route do not have."""


Merge: TypeAlias = "Callable[[list[Part], Arguments], Any]"
"""Puts the parts of nodes together; the one of the node that was asked comes first."""


class Selector:
    """A field of a request: `path.group`, `query.topic`, `body.transactional_id`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._part, _, self._field = text.partition(".")

    def __call__(self, arguments: Arguments) -> Any:
        """The value of the field; None when the request leaves it out."""
        return getattr(arguments[self._part], self._field)

    def check(self, types: Types) -> None:
        """Raise `ValueError` when requests have no such field."""
        kind = getattr(types, self._part, None)
        if kind is None or self._field not in kind.__struct_fields__:
            raise ValueError(f"{self.text} is no field of what the handler takes")


class _Local:
    """See `LOCAL`."""

    async def answer(self, call: PlacedCall) -> Response | Stream:
        return await call.here()

    def check(self, types: Types) -> None:
        del types


LOCAL: Final = _Local()
"""The node that was asked: what it needs of others, its services fetch themselves."""


class At:
    """The one node that `locate` finds."""

    def __init__(
        self,
        locate: Callable[[Broker, Arguments], Awaitable[Lookup | None]],
        *selectors: Selector,
        otherwise: Place = LOCAL,
    ) -> None:
        """Where `locate` says None, the request names nothing: `otherwise` says who answers."""
        self._locate = locate
        self._selectors = selectors
        self._otherwise = otherwise

    async def answer(self, call: PlacedCall) -> Response | Stream:
        """Answer here if this is the node, else once where it is."""
        lookup = await self._locate(call.broker, call.arguments)
        if lookup is None:
            return await self._otherwise.answer(call)
        node_id = lookup()
        if node_id == call.broker.routes.node_id:
            return await call.here()
        if call.sender is not None:
            raise wrong_again(call.sender, call.broker.routes.node_id, node_id)
        return await call.there(node_id, lambda: lookup() == node_id)

    def check(self, types: Types) -> None:
        """Every field that is looked at must be there."""
        for each in self._selectors:
            each.check(types)
        self._otherwise.check(types)


class Gather:
    """Every node, each for its part. See `gather`."""

    def __init__(self, merge: Merge, absent: Absent) -> None:
        self._merge = merge
        self._absent = absent

    async def answer(self, call: PlacedCall) -> Response | Stream:
        """This node's part for another that gathers, and else all of them."""
        if call.is_part:
            return await call.here()
        parts = await call.parts(self._absent)
        return call.response(self._merge(parts.found, call.arguments), parts)

    def check(self, types: Types) -> None:
        """The answer must have room for the names of nodes that did not answer."""
        if not is_gathered(types.answer):
            raise ValueError("the answer is no `Gathered`")


class Pages:
    """Every node, one after the other. See `pages`."""

    def __init__(self, rows: str) -> None:
        self._rows = rows

    async def answer(self, call: PlacedCall) -> Response | Stream:
        """This node's part for another that gathers, and else a page of all of them."""
        if call.is_part:
            return await call.here()
        query = call.arguments["query"]
        counted = await call.parts((), msgspec.structs.replace(query, skip=0, limit=1))
        rows: list[Any] = []
        skip: int = query.skip
        for node_id, answer in sorted(counted.found, key=lambda part: part.node_id):
            if skip < answer.total and len(rows) < query.limit:
                rest = msgspec.structs.replace(query, skip=skip, limit=query.limit - len(rows))
                rows += getattr(await call.part(node_id, rest), self._rows)
            skip = max(skip - answer.total, 0)
        answers = [part.answer for part in counted.found]
        whole = {"total": sum(each.total for each in answers), self._rows: rows}
        return call.response(msgspec.structs.replace(answers[0], **whole), counted)

    def check(self, types: Types) -> None:
        """The query must say which page, and the answer how many rows there are in all."""
        Selector("query.skip").check(types)
        Selector("query.limit").check(types)
        if not is_gathered(types.answer):
            raise ValueError("the answer is no `Gathered`")


def gather(merge: Merge, *absent: type[GoQueueError]) -> Place:
    """All nodes, and `merge` puts their answers together.

    A node that raises one of `absent` has no part. One that did not answer is named in the answer.
    """
    return Gather(merge, absent)


def pages(rows: str) -> Place:
    """All nodes, whose lists follow each other; the query has `skip` and `limit`.

    `rows` is the field of the answer that holds the list; its field `total` counts all of them.
    """
    return Pages(rows)


# --- One node ------------------------------------------------------------------------------------


def group(text: str = "path.group", *, otherwise: Place = LOCAL) -> Place:
    """The coordinator of the group that a field names; `otherwise` where it names none."""
    select = Selector(text)

    async def locate(broker: Broker, arguments: Arguments) -> Lookup | None:
        group_id = select(arguments)
        return None if group_id is None else group_lookup(broker, group_id)

    return At(locate, select, otherwise=otherwise)


def group_named(group_id: str) -> Place:
    """The coordinator of a group of our own."""

    async def locate(broker: Broker, _arguments: Arguments) -> Lookup:
        return group_lookup(broker, group_id)

    return At(locate)


def writer(topic: str) -> Place:
    """The leader of the only partition of an internal topic."""

    async def locate(broker: Broker, _arguments: Arguments) -> Lookup:
        return writer_lookup(broker, topic)

    return At(locate)


def unit(text: str) -> Place:
    """The leader of the unit that holds the delayed message whose id is in a field."""
    select = Selector(text)

    async def locate(broker: Broker, arguments: Arguments) -> Lookup:
        return unit_lookup(broker, unit_of(select(arguments)))

    return At(locate, select)


def transaction(name: str, producer: str | None = None) -> Place:
    """The coordinator of the transactional id that the field `name` names.

    Without one it is that of the producer whose id the field `producer` holds.
    """
    select = Selector(name)
    select_producer = None if producer is None else Selector(producer)

    async def locate(broker: Broker, arguments: Arguments) -> Lookup | None:
        producer_id = None if select_producer is None else select_producer(arguments)
        return await transaction_lookup(broker, select(arguments), producer_id)

    selectors = (select,) if select_producer is None else (select, select_producer)
    return At(locate, *selectors)
