"""The server as a process: the event loop, the signals, the exit code."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

from goqueue.runtime.free_memory import use_one_heap
from goqueue.server.node import Node
from goqueue.server.start_report import process_age_s, report_start

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.server.config import Config

logger = logging.getLogger(__name__)

_UMASK: Final = 0o077
"""No file that the server makes, by whichever library, can be read by other users."""
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def serve(config: Config) -> None:
    """Start a node, run it until a signal asks for its end, stop it.

    A second signal ends the process at once, as if it had been killed: nothing that was
    acknowledged is lost, and the next start has to recover.

    Raises:
        GoQueueError: it could not be started; the text says why.
    """
    allow_many_files()
    use_one_heap()
    os.umask(_UMASK)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(config))


async def _serve(config: Config) -> None:
    stopping = asyncio.Event()
    _on_signals(stopping)
    node = Node(config)
    await node.start()
    # What is there now stays: no later collection needs to look at it again.
    gc.freeze()
    gc.enable()
    node.broker.health.watch_collections()
    age_s = process_age_s()
    report_start(node, node.uptime_s if age_s is None else age_s)
    await stopping.wait()
    await node.stop()
    logger.info("stopped")


def _on_signals(stopping: asyncio.Event) -> None:
    def on_signal(number: signal.Signals) -> None:
        if stopping.is_set():
            logger.warning("%s received again: exiting now, the next start recovers", number.name)
            logging.shutdown()
            os._exit(128 + number)
        logger.info("%s: stopping", number.name)
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal, number)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """That of uvloop where there is one; None is asyncio's own."""
    if sys.platform == "win32":
        return None
    try:
        import uvloop  # noqa: PLC0415 - absent where it has no wheel
    except ImportError:
        return None
    return uvloop.new_event_loop


def allow_many_files() -> int | None:
    """Raise the limit as far as the system allows; returns it, or None where there is none.

    The usual default of 1024 is less than a few hundred segments and a few hundred clients need,
    and a log that cannot open its next segment refuses appends.
    """
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415 - absent on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # macOS says "no limit" and means another number
            return soft
    return hard
