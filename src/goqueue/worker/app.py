"""What a program declares: an app, its tasks, and the queue group that runs them.

app = App("images")

@app.task
def resize(name: str, width: int = 100) -> None: ...

resize.send("1.png", width=200)      # in the program; `goqueue worker module:app` runs it
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, Literal, overload

from goqueue.client.settings import DEFAULT_ADDRESS
from goqueue.model.delivery import Priority
from goqueue.worker.outcomes import DEFAULT_MAX_BACKOFF_S, RetryRule
from goqueue.worker.publisher import Publisher
from goqueue.worker.task import P, R, Task
from goqueue.worker.times import positive_seconds, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from goqueue.client.settings import ClientSettings
    from goqueue.client.types import Time

ADDRESS_VARIABLE: Final = "GOQUEUE_ADDRESS"


class App:
    """Tasks that share a broker, a queue group and, unless they say otherwise, a topic."""

    def __init__(
        self,
        name: str,
        *,
        topic: str | None = None,
        group: str | None = None,
        address: str | None = None,
        settings: ClientSettings | None = None,
        visibility: Time = 30,
        max_deliveries: int = 3,
        assignment: Literal["shared", "exclusive"] = "shared",
        time_limit: Time | None = None,
        include: Iterable[str] = (),
    ) -> None:
        """Declare an app. Nothing is connected before something is sent.

        Args:
            name: The name of the app, and of its topic and group unless they are given.
            topic: The topic of tasks without one of their own; created when it is first used.
            group: The queue group of the workers.
            address: The broker; by default that of the variable `GOQUEUE_ADDRESS`, or this machine.
            settings: The settings of the client, such as TLS.
            visibility: Seconds until the messages of a worker that does not respond are
                redelivered. It is no limit for tasks: workers extend it while a task runs.
            max_deliveries: Failed deliveries before a message is dead-lettered; a setting of the
                group, if a worker of this app is its first member.
            assignment: `shared`; or `exclusive`, the tasks of a key run one after the other, and
                each process of a worker runs one task at a time.
            time_limit: The time limit in seconds of tasks without one of their own.
            include: Modules with more tasks of this app, which workers import.
        """
        self.name = name
        self.topic = topic or name
        self.group = group or name
        self.settings = settings
        self.visibility_s = positive_seconds(visibility, "visibility")
        self.max_deliveries = max_deliveries
        self.assignment = assignment
        self.include = tuple(include)
        self.tasks: dict[str, Task[Any, Any]] = {}
        """By their names."""
        self._time_limit = time_limit
        address = address or os.environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS
        self._publisher = Publisher(address, settings)

    @property
    def address(self) -> str:
        """The broker that calls are published to, and that workers take them from."""
        return self._publisher.address

    def connect_to(self, address: str) -> None:
        """Use another broker from now on."""
        self.close()
        self._publisher.address = address

    def close(self) -> None:
        """Disconnect. To send something connects again."""
        self._publisher.close()

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of all tasks, by name."""
        return tuple(sorted({task.topic for task in self.tasks.values()}))

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        topic: str | None = None,
        time_limit: Time | None = None,
        max_retries: int | None = None,
        retry_backoff: Time | None = None,
        retry_backoff_max: Time = DEFAULT_MAX_BACKOFF_S,
        reject_on: tuple[type[Exception], ...] = (),
        priority: Priority | str | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        topic: str | None = None,
        time_limit: Time | None = None,
        max_retries: int | None = None,
        retry_backoff: Time | None = None,
        retry_backoff_max: Time = DEFAULT_MAX_BACKOFF_S,
        reject_on: tuple[type[Exception], ...] = (),
        priority: Priority | str | None = None,
    ) -> Any:
        """Make a function a task, a synchronous or an asynchronous one: `@app.task`.

        Args:
            function: The function.
            name: The name in messages; by default the function's.
            topic: A topic of its own.
            time_limit: Seconds that it may run. An asynchronous task is cancelled then; in the
                thread of a synchronous one `TimeLimitExceeded` is raised.
            max_retries: Retries before it is dead-lettered; by default as many as the group's
                `max_deliveries` allows.
            retry_backoff: Seconds before the first retry, doubled each time; by default the
                group's back-off.
            retry_backoff_max: The longest back-off.
            reject_on: Errors after which it is dead-lettered without a retry.
            priority: The priority of its messages.

        Raises:
            ValueError: two tasks of one name, or options that contradict each other.
        """
        limit = self._time_limit if time_limit is None else time_limit
        time_limit_s = None if limit is None else positive_seconds(limit, "time_limit")
        self._check_retries(max_retries)
        rule = RetryRule(
            max_retries,
            None if retry_backoff is None else seconds(retry_backoff, "retry_backoff"),
            seconds(retry_backoff_max, "retry_backoff_max"),
            reject_on,
        )
        lane = Priority.parse(priority) if isinstance(priority, str) else priority

        def register(function: Callable[P, R]) -> Task[P, R]:
            made = Task(
                self._publisher,
                function,
                name=name or function.__name__,
                topic=topic or self.topic,
                priority=lane,
                time_limit_s=time_limit_s,
                retry_rule=rule,
            )
            if self.tasks.setdefault(made.name, made) is not made:
                raise ValueError(
                    f"app {self.name!r} has a task {made.name!r} already: give one of them another "
                    "name, with task(name=...)"
                )
            return made

        return register if function is None else register(function)

    def _check_retries(self, max_retries: int | None) -> None:
        if max_retries is None:
            return
        if max_retries < 0:
            raise ValueError(f"max_retries: {max_retries} is less than 0")
        if max_retries >= self.max_deliveries:
            raise ValueError(
                f"max_retries: {max_retries} retries take {max_retries + 1} deliveries, and the "
                f"group dead-letters after {self.max_deliveries}: pass "
                f"max_deliveries={max_retries + 1} to App"
            )
