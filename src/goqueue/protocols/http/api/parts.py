"""What the nodes of a cluster answer to one request, each for its part."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from goqueue.model.errors import GoQueueError
from goqueue.model.tuples import NamedTuple
from goqueue.protocols.http.api.forwarded import forward
from goqueue.protocols.http.api.gathered import UnansweredNode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.cluster.facts import ClusterFacts
    from goqueue.protocols.http.api.requests import Request
    from goqueue.protocols.http.api.responses import Response
    from goqueue.topics.forwarding import Forwards

GATHER_S: Final = 3.0
"""How long the parts of other nodes are waited for; the answer names those that did not come."""
_OK: Final = range(200, 300)


class Part(NamedTuple):
    """What one node has answered."""

    node_id: int
    answer: Any
    """What its handler has returned."""


Absent: TypeAlias = "tuple[type[GoQueueError], ...]"
"""Errors by which a node says that it has no part; when all do, that is the answer."""


class _Problem(msgspec.Struct):
    detail: str = ""


class Parts:
    """What nodes have answered to one request."""

    def __init__(self, own_id: int) -> None:
        self._own_id = own_id
        self.found: list[Part] = []
        """This node's first, then by the numbers of nodes."""
        self.unanswered: list[UnansweredNode] = []
        self.silent: list[UnansweredNode] = []
        """Those of them that were asked: they may have a part, which one that is away may too."""

    def _missing(self, node_id: int, why: str) -> None:
        self.unanswered.append(UnansweredNode(node_id, why))

    async def own(self, answer: Awaitable[Any], absent: Absent) -> GoQueueError | None:
        """Take this node's part; if it has none, why."""
        try:
            self.found.insert(0, Part(self._own_id, await answer))
        except absent as error:
            return error
        return None

    async def others(
        self,
        forwards: Forwards,
        facts: ClusterFacts,
        request: Request,
        decode: Callable[[bytes], Any],
        absent: Absent,
    ) -> None:
        """Ask all other nodes at once, and take what they answer."""
        nodes = forwards.routes.others()
        answers = await asyncio.gather(*(_ask(forwards, request, each) for each in nodes))
        names = {each.__name__ for each in absent}
        for node_id, answer in zip(nodes, answers, strict=True):
            self._take(node_id, answer, decode, names)
        self.silent = [*self.unanswered]
        for member in facts.members():
            if member.node_id not in nodes and member.node_id != self._own_id:
                self._missing(member.node_id, f"node {member.node_id} is {member.state}")
        self.unanswered.sort(key=lambda each: each.node_id)

    def _take(
        self,
        node_id: int,
        answer: Response | GoQueueError,
        decode: Callable[[bytes], Any],
        absent: set[str],
    ) -> None:
        if isinstance(answer, GoQueueError):
            self._missing(node_id, str(answer))
            return
        error = answer.remote_error
        if error is not None and error.name in absent:
            return
        try:
            if answer.status in _OK:
                self.found.append(Part(node_id, decode(answer.body)))
            else:
                problem = msgspec.json.decode(answer.body, type=_Problem)
                self._missing(node_id, problem.detail or f"it answers {answer.status}")
        except msgspec.MsgspecError as malformed:
            # A node of another version may answer in another shape.
            self._missing(node_id, f"its answer cannot be read: {malformed}")


async def _ask(forwards: Forwards, request: Request, node_id: int) -> Response | GoQueueError:
    routes = forwards.routes
    try:
        return await forward(
            forwards,
            request,
            node_id,
            deadline_s=GATHER_S,
            stays=lambda: node_id in routes.others(),
            is_part=True,
        )
    except GoQueueError as error:
        return error.with_traceback(None)
