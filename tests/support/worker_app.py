"""Tasks for tests of workers. They write down what they do, a line of JSON each.

The name of the app and the file are in the environment; `hold` waits for a file beside it.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID  # noqa: TC003 - read by the worker

from goqueue import App, Reject, Retry, TimeLimitExceeded, current_message

if TYPE_CHECKING:
    from typing import NoReturn

NAME = os.environ["WORKER_APP"]
OUT = Path(os.environ["WORKER_OUT"])
VISIBILITY_S = float(os.environ.get("WORKER_VISIBILITY", "30"))
LONG_S = 3600

app = App(
    NAME,
    visibility=VISIBILITY_S,
    assignment="exclusive" if "WORKER_IS_EXCLUSIVE" in os.environ else "shared",
)


def record(mark: str, what: str = "ran", **more: Any) -> None:
    message = current_message()
    line = {"mark": mark, "what": what, "count": message.delivery_count, "pid": os.getpid()}
    descriptor = os.open(OUT, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, json.dumps(line | more).encode() + b"\n")
    os.close(descriptor)


@app.task
def plain(mark: str) -> None:
    record(mark)


@app.task(priority="low")
async def awaited(mark: str, who: UUID | None = None) -> None:
    await asyncio.sleep(0)
    message = current_message()
    record(
        mark,
        who=repr(who),
        id=message.id,
        key=(message.key or b"").decode(),
        headers={name: (value or b"").decode() for name, value in message.headers},
        priority=message.priority.label,
    )


@app.task(retry_backoff=0.05)
def fail(mark: str) -> NoReturn:
    record(mark)
    raise LookupError(mark)


@app.task(max_retries=1, retry_backoff=0.05)
async def fail_twice(mark: str) -> NoReturn:
    record(mark)
    raise LookupError(mark)


@app.task(reject_on=(LookupError,))
def fail_for_good(mark: str) -> NoReturn:
    record(mark)
    raise LookupError(mark)


@app.task
def reject(mark: str) -> NoReturn:
    record(mark)
    raise Reject(f"no use: {mark}")


@app.task
async def retry_once(mark: str) -> None:
    record(mark)
    if current_message().delivery_count == 1:
        raise Retry("not yet", delay=0.05)


@app.task(retry_backoff=0.05)
async def fail_once(mark: str, number: int) -> None:
    record(mark, number=number)
    if current_message().delivery_count == 1:
        raise LookupError(mark)


@app.task(time_limit=0.1, retry_backoff=0.05)
def spin(mark: str) -> None:
    try:
        while True:
            time.sleep(0.001)
    except TimeLimitExceeded:
        record(mark, "limit")
        raise


@app.task(time_limit=0.1, retry_backoff=0.05)
async def sleep(mark: str) -> None:
    try:
        await asyncio.sleep(LONG_S)
    except asyncio.CancelledError:
        record(mark, "limit")
        raise


@app.task(time_limit=0.1, retry_backoff=0.05)
def stuck_once(mark: str) -> None:
    record(mark)
    if current_message().delivery_count == 1:
        time.sleep(LONG_S)


@app.task
def brief(mark: str, number: int) -> None:
    time.sleep(0.02)
    record(mark, number=number)


@app.task
def hold(mark: str) -> None:
    record(mark, "began")
    while not OUT.with_name(f"let-{mark}").exists():
        time.sleep(0.01)
    record(mark, "ended")


@app.task
async def hold_async(mark: str) -> None:
    record(mark, "began")
    try:
        await asyncio.sleep(LONG_S)
    finally:
        record(mark, "cancelled")


@app.task
def send_another(mark: str) -> None:
    plain.send(f"{mark}-sync")


@app.task
async def send_another_async(mark: str) -> None:
    await plain.send_async(f"{mark}-async")
