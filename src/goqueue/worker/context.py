"""The message that a task runs for, as the task may look at it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from goqueue.client.queues.messages import AsyncQueueMessage
    from goqueue.model.delivery import Priority

running: Final[ContextVar[AsyncQueueMessage]] = ContextVar("running")
"""Set by the worker; the client's messages belong to its event loop, so tasks get a copy."""


class TaskMessage(NamedTuple):
    """A message, as tasks see it."""

    id: str
    """The same for every delivery: topic, partition and offset."""
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    priority: Priority
    delivery_count: int
    """1 is the first delivery."""


def current_message() -> TaskMessage:
    """The message that the task which calls this runs for.

    Raises:
        RuntimeError: no worker has called the task.
    """
    try:
        message = running.get()
    except LookupError:
        raise RuntimeError(
            "there is no current message: it exists only while a worker runs a task"
        ) from None
    return TaskMessage(
        message_id(message),
        message.topic,
        message.partition,
        message.offset,
        message.timestamp_ms,
        message.key,
        message.headers,
        message.priority,
        message.delivery_count,
    )


def message_id(message: AsyncQueueMessage) -> str:
    """What log lines call a message."""
    return f"{message.topic}-{message.partition}@{message.offset}"
