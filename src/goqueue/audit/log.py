"""Where events are handed in. An audit log that is off takes them and does nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.audit.events import NOBODY, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.metrics.registry import Samples


class AuditLog:
    """Takes events. This one is off; `writer.WrittenAuditLog` stores them."""

    is_on: bool = False
    """Callers that would have to work for the details of an event look here first."""
    on_written: Callable[[list[bytes]], None] | None = None
    """Called with every batch of lines once they are stored, by the writer's thread."""

    @property
    def failure(self) -> str | None:
        """Why nothing can be written at the moment."""
        return None

    def put(self, samples: Samples) -> None:
        """What there is to count."""

    def record(
        self,
        event: str,
        *,
        principal: str = NOBODY,
        host: str = NOBODY,
        resource: str = "",
        outcome: str = Outcome.SUCCESS,
        request_id: str | None = None,
        **details: object,
    ) -> None:
        """Take an event; never waits and never raises.

        `principal` is a label such as `User:alice`, `host` the address of the client, `resource`
        what was meant, such as `topic:orders`. Nothing that is secret may be among the details.
        """


NO_AUDIT: Final = AuditLog()
"""For brokers without one."""
