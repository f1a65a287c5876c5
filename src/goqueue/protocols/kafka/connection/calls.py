"""One request on its way through a connection, and what became of the requests of one read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    from goqueue.protocols.kafka.context import RequestContext
    from goqueue.protocols.kafka.registry import Endpoint
    from goqueue.wire.kafka.frames import Response
    from goqueue.wire.kafka.primitives import Buffer
    from goqueue.wire.kafka.replies import Reply


class Call:
    """One request on its way."""

    __slots__ = (
        "answer",
        "ctx",
        "endpoint",
        "future",
        "is_done",
        "read",
        "request",
        "size_bytes",
    )

    def __init__(
        self, endpoint: Endpoint | None, ctx: RequestContext, request: Any, size_bytes: int
    ) -> None:
        self.endpoint = endpoint
        """None when the answer was known before any handler was asked."""
        self.ctx = ctx
        self.request = request
        self.size_bytes = size_bytes
        """What the request takes of the budget until it is answered."""
        self.read: Callable[[], Any] | None = None
        """Reads the request, where that would take the event loop too long."""
        self.future: Coming | None = None
        self.is_done = False
        self.answer: list[Buffer] | None = None
        """The whole frame, once it is known; None answers nothing."""

    @property
    def is_pipelined(self) -> bool:
        """Whether it may run beside other pipelined requests of its connection."""
        return self.endpoint is None or (self.endpoint.spec.pipelined and not self.ctx.is_large)

    @property
    def is_long_poll(self) -> bool:
        """Whether it may be cancelled when nobody waits for its answer."""
        if self.endpoint is None:
            return False
        return self.endpoint.spec.long_poll or self.ctx.is_long_poll


Coming: TypeAlias = "asyncio.Future[Response | None] | Reply[Response | None]"
"""An answer that is still to come."""

Served: TypeAlias = (
    "tuple[int, int, list[Buffer], tuple[Call, Awaitable[Response | None] | None] | None]"
)
"""The requests at the start of a buffer that went straight: how many bytes and how many requests
they are, the frames of their answers in parts, empty ones included, and the last of them if its
answer is still to come, or has to wait for others before it."""
