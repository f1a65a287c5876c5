"""One message of a worker: its task is run, and it is acknowledged as that ends."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import GoQueueError
from goqueue.worker import context
from goqueue.worker.arguments import TASK_HEADER
from goqueue.worker.errors import Interrupted, Reject, Retry, StuckTaskError
from goqueue.worker.execution import execute, task_traceback
from goqueue.worker.outcomes import STOPPED, SUCCEEDED, Action, Outcome, RetryRule

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.client.queues.messages import AsyncQueueMessage
    from goqueue.worker.app import App

logger = logging.getLogger("goqueue.worker")

_NO_RULE: Final = RetryRule()


class Handler:
    """Runs the tasks of an app, synchronous ones in as many threads as tasks run at a time."""

    def __init__(self, app: App, concurrency: int, on_stuck: Callable[[], None]) -> None:
        self._app = app
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="task")
        self._on_stuck = on_stuck
        self.has_unfinished_task = False
        """Whether a task may still run that nobody waits for any more."""

    def close(self) -> None:
        """Run no more tasks."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def handle(self, message: AsyncQueueMessage) -> None:
        """Run the task of a message, and acknowledge the message; its errors are only logged."""
        loop = asyncio.get_running_loop()
        name = _task_name(message)
        started_s = loop.time()
        error: BaseException | None = None
        try:
            await self._run(name, message)
        except (Exception, Interrupted) as raised:  # noqa: BLE001 - whatever it is, it has failed
            error = raised
        except asyncio.CancelledError:
            self.has_unfinished_task = True
            with suppress(GoQueueError):
                _settle(message, STOPPED)
            raise
        task = self._app.tasks.get(name)
        rule = _NO_RULE if task is None else task.retry_rule
        outcome = SUCCEEDED if error is None else rule.after(error, message.delivery_count)
        _log(name, message, outcome, error, loop.time() - started_s)
        try:
            await _settle(message, outcome)
        except GoQueueError as refusal:
            logger.warning("%s may be redelivered: %s", context.message_id(message), refusal)

    async def _run(self, name: str, message: AsyncQueueMessage) -> None:
        """Run the task of a message. Raises what the task raises.

        Raises:
            Reject: there is no such task, or it does not take these arguments.
            TimeLimitExceeded: it took too long.
            StuckTaskError: it took too long and does not end, so that this process has to.
        """
        task = self._app.tasks.get(name)
        if task is None:
            raise Reject(_unknown(name, self._app))
        arguments = task.arguments.decode(message.value)
        context.running.set(message)
        try:
            await execute(task, arguments, self._threads)
        except StuckTaskError:
            self.has_unfinished_task = True
            self._on_stuck()
            raise


def _task_name(message: AsyncQueueMessage) -> str:
    found = next((value for name, value in message.headers if name == TASK_HEADER), None)
    return (found or b"").decode(errors="replace")


def _unknown(name: str, app: App) -> str:
    said = f"unknown task {name!r}" if name else f"no task: the header {TASK_HEADER} is missing"
    return f"{said}; app {app.name!r} has the tasks {', '.join(sorted(app.tasks))}"


def _settle(message: AsyncQueueMessage, outcome: Outcome) -> Any:
    action, reason, delay_s = outcome
    if action is Action.ACK:
        return message.ack()
    if action is Action.NACK:
        return message.nack(delay=delay_s, reason=reason)
    return message.reject(reason)


def _log(
    name: str,
    message: AsyncQueueMessage,
    outcome: Outcome,
    error: BaseException | None,
    took_s: float,
) -> None:
    """One line; below it the traceback of an error that the task did not raise on purpose."""
    call = f"{name}[{context.message_id(message)}]"
    if error is None:
        logger.info("%s succeeded in %.3f s", call, took_s)
        return
    trace = None
    if not isinstance(error, Reject | Retry | Interrupted | StuckTaskError):
        trace = (type(error), error, task_traceback(error))
    done = "rejected" if outcome.action is Action.REJECT else "failed"
    count = message.delivery_count
    logger.warning(
        "%s %s in %.3f s, delivery %d: %s",
        call,
        done,
        took_s,
        count,
        outcome.reason,
        exc_info=trace,
    )
