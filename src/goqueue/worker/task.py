"""A task: a function that a worker calls for each message with its name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from goqueue.worker.arguments import TASK_HEADER, Arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from goqueue.client.types import Content, Headers, Receipt, Time
    from goqueue.model.delivery import Priority
    from goqueue.worker.outcomes import RetryRule
    from goqueue.worker.publisher import Publisher

P = ParamSpec("P")
R = TypeVar("R")


class Sender(Generic[P]):
    """Sends calls of one task, all with the same options."""

    def __init__(
        self,
        publisher: Publisher,
        topic: str,
        arguments: Arguments,
        options: dict[str, Any],
    ) -> None:
        self._publisher = publisher
        self.topic = topic
        """Where its messages are published."""
        self.arguments = arguments
        self._options = options

    def send(self, *args: P.args, **kwargs: P.kwargs) -> Receipt:
        """Call the task in a worker; returns when the message is stored, without a result.

        Raises:
            TypeError: the task does not take these arguments, or JSON cannot hold one.
            GoQueueError: the message is not stored.
        """
        value = self.arguments.encode(args, kwargs)
        return self._publisher.publish(self.topic, value, self._options)

    delay = send
    """What Celery calls it."""

    async def send_async(self, *args: P.args, **kwargs: P.kwargs) -> Receipt:
        """The same for programs on asyncio."""
        value = self.arguments.encode(args, kwargs)
        return await self._publisher.publish_async(self.topic, value, self._options)

    def send_many(self, calls: Iterable[Iterable[Any]]) -> list[Receipt]:
        """Call the task once for each tuple of arguments, in batches; returns when all are stored.

        Raises:
            TypeError: as `send`; then none is sent.
            GoQueueError: one is not stored; others may be.
        """
        values = [self.arguments.encode(args, {}) for args in calls]
        return self._publisher.publish_many(self.topic, values, self._options)


class Task(Sender[P], Generic[P, R]):
    """A decorated function. To call it as before runs it here and now; see `App.task`."""

    def __init__(
        self,
        publisher: Publisher,
        function: Callable[P, R],
        *,
        name: str,
        topic: str,
        priority: Priority | None,
        time_limit_s: float | None,
        retry_rule: RetryRule,
    ) -> None:
        update_wrapper(self, function)
        headers = ((TASK_HEADER, name),)
        options = {"headers": headers} if priority is None else _with(headers, priority=priority)
        super().__init__(publisher, topic, Arguments(name, function), options)
        self.name = name
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)
        self.time_limit_s = time_limit_s
        self.retry_rule = retry_rule

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it here and now, as if it were not decorated."""
        return self.function(*args, **kwargs)

    def options(
        self,
        *,
        key: Content = None,
        headers: Headers | None = None,
        delay: Time | None = None,
        deliver_at: datetime | None = None,
        priority: Priority | str | None = None,
        ttl: Time | None = None,
    ) -> Sender[P]:
        """How to send it: `task.options(delay=60).send(...)`.

        Args:
            key: Messages of one key go to one partition, and keep their order.
            headers: More headers.
            delay: Run it after this delay, in seconds.
            deliver_at: Run it at this time, instead of a delay.
            priority: The priority: critical, high, normal, low or background.
            ttl: Do not run it when it has waited for so long, in seconds.
        """
        pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
        given = _with(
            ((TASK_HEADER, self.name), *pairs),
            key=key,
            delay=delay,
            deliver_at=deliver_at,
            priority=priority,
            ttl=ttl,
        )
        return Sender(self._publisher, self.topic, self.arguments, {**self._options, **given})

    def __repr__(self) -> str:
        return f"<Task {self.name} of topic {self.topic}>"


def _with(headers: Iterable[tuple[str, Any]], **options: Any) -> dict[str, Any]:
    given = {name: value for name, value in options.items() if value is not None}
    return {"headers": tuple(headers), **given}
