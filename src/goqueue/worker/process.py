"""One process of `goqueue worker`, as its supervisor starts it.

SIGTERM, or the end of the supervisor, stops it in order; SIGQUIT at once. SIGINT is ignored: Ctrl-C
reaches the supervisor too, which decides.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING

import msgspec

from goqueue.model.errors import GoQueueError
from goqueue.worker.loading import load_app
from goqueue.worker.runner import Runner
from goqueue.worker.settings import WorkerSettings
from goqueue.worker.supervisor import CANNOT_START, REPLACE_ME, set_up_logging

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.worker.app import App

logger = logging.getLogger("goqueue.worker")


def main(settings: WorkerSettings) -> int:
    """Run one process of a worker; returns its exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        app = load_app(settings.app)
    except GoQueueError as error:
        return _cannot_start(str(error))
    except (Exception, SystemExit):  # noqa: BLE001 - whatever the user's module raises
        return _cannot_start(f"{settings.app} cannot be imported:\n{traceback.format_exc()}")
    set_up_logging(settings.log_level)  # unless the user's module has set up something else
    if settings.address is not None:
        app.connect_to(settings.address)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_run(app, settings))


async def _run(app: App, settings: WorkerSettings) -> int:
    try:
        runner = Runner(app, settings)
    except (GoQueueError, ValueError) as error:
        return _cannot_start(str(error))
    _listen(runner)
    code = 0
    try:
        await runner.run()
    except GoQueueError as error:
        if not runner.has_joined:
            return _cannot_start(str(error))
        logger.error("stopped: %s", error)  # noqa: TRY400 - it says enough
        code = 1
    app.close()
    if runner.has_unfinished_task:  # its thread would keep the process
        logging.shutdown()
        os._exit(REPLACE_ME)
    return code


def _listen(runner: Runner) -> None:
    """Stop when a signal says so, or when the supervisor is gone."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, runner.stop)
    loop.add_signal_handler(signal.SIGQUIT, runner.stop_at_once)

    def supervisor_is_gone() -> None:
        loop.remove_reader(sys.stdin)
        runner.stop()

    loop.add_reader(sys.stdin, supervisor_is_gone)  # it never writes: there is only the end to read


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - absent where it has no wheel
    except ImportError:
        return None
    return uvloop.new_event_loop


def _cannot_start(message: str) -> int:
    sys.stderr.write(f"goqueue: {message}\n")
    return CANNOT_START


if __name__ == "__main__":
    sys.exit(main(msgspec.json.decode(sys.argv[1], type=WorkerSettings)))
