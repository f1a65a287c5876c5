"""The server as a process: the event loop, the signals, what a start reports."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import goqueue
from goqueue.records import IMPLEMENTATION
from goqueue.runtime.free_memory import use_one_heap
from goqueue.server.folder import UMASK
from goqueue.server.node import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from goqueue.partitions.partition import Partition
    from goqueue.server.config import Config

logger = logging.getLogger(__name__)

_SWITCH_S: Final = 0.0005
"""After this time a thread that computes gives way to the event loop: one that imports the next
listener at a start, or builds a state that this node has taken over. The loop has to wait for it
once for each call of the operating system that it makes meanwhile. A turn with twelve writes took
up to 100 ms with the interpreter's own 5 ms, and takes up to 20 with this; the thread takes a sixth
longer."""
_REPEATED_S: Final = 3600.0
"""How often the log says that other machines can reach listeners without logins or TLS."""
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
    os.umask(UMASK)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(config))


async def _serve(config: Config) -> None:
    stopping = asyncio.Event()
    node = Node(config)
    serving = asyncio.current_task()

    def stop() -> None:
        stopping.set()
        if config.cluster.enabled and not node.is_started and serving is not None:
            serving.cancel()  # the metadata store that it waits for may never be there

    _on_signals(stopping, stop)
    _on_hangup(node)
    sys.setswitchinterval(_SWITCH_S)
    try:
        await node.start()
    except asyncio.CancelledError:
        if not stopping.is_set():
            raise
        logger.info("stopped before it was ready")
        return
    # What is there now stays: no later collection needs to look at it again.
    gc.freeze()
    gc.enable()
    node.broker.health.watch_collections()
    age_s = process_age_s()
    report_start(node, node.uptime_s if age_s is None else age_s)
    report_access(node)
    open_to = node.broker.settings.exposed
    repeating = None if open_to is None else asyncio.create_task(_repeat_exposure(open_to))
    await stopping.wait()
    if repeating is not None:
        repeating.cancel()
    await node.stop()
    logger.info("stopped")


def _on_signals(stopping: asyncio.Event, stop: Callable[[], None]) -> None:
    def on_signal(number: signal.Signals) -> None:
        if stopping.is_set():
            logger.warning("%s received again: exiting now, the next start recovers", number.name)
            logging.shutdown()
            os._exit(128 + number)
        logger.info("%s: stopping", number.name)
        stop()

    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal, number)


def _on_hangup(node: Node) -> None:
    """SIGHUP: look at the files of the certificates now, as other servers do."""
    running: set[asyncio.Task[None]] = set()

    def reload() -> None:
        logger.info("SIGHUP: reloading certificates")
        task = asyncio.get_running_loop().create_task(node.renewal.now())
        running.add(task)
        task.add_done_callback(running.discard)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)


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


_NAMED_PARTITIONS: Final = 20
"""How many partitions with something to say are named; the others are counted."""


def report_start(node: Node, took_s: float) -> None:
    """One line that says "ready", and before it what recovery had to do."""
    for line in recovery_lines(node.broker.partitions):
        logger.warning("recovery: %s", line)
    logger.info(
        "console: %s", console_url(node.http.host, node.http.port, tls=node.config.tls.enabled)
    )
    logger.info(
        "ready in %.0f ms: goqueue %s (%s codec, %s), %s on %s:%d, HTTP on %s:%d, gRPC on %s:%d, "
        "data in %s, topics: %d, partitions: %d",
        took_s * 1000,
        goqueue.__version__,
        IMPLEMENTATION,
        type(asyncio.get_running_loop()).__module__.partition(".")[0],
        node.kafka.settings.name,
        node.kafka.settings.host,
        node.kafka.port,
        node.http.host,
        node.http.port,
        node.grpc.settings.host,
        node.grpc.port,
        node.config.broker.data_dir,
        len(node.broker.topics.catalogue.by_name),
        len(node.broker.partitions),
    )


def console_url(host: str, port: int, *, tls: bool) -> str:
    """Where a browser on this machine finds the console; a wildcard address is no place to go."""
    if host in {"", "0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        host = "localhost"
    elif ":" in host:
        host = f"[{host}]"
    return f"{'https' if tls else 'http'}://{host}:{port}/console"


def report_access(node: Node) -> None:
    """Say who may get in, where that is anybody: on this machine, or from others."""
    open_to, config = node.broker.settings.exposed, node.config
    if open_to is not None:
        logger.warning("--insecure: %s", open_to)
    elif not (config.auth.enabled or config.asks_kafka_clients):
        logger.info(
            "no logins are required: every user of this machine may do everything; auth.enabled "
            "requires them"
        )


async def _repeat_exposure(open_to: str) -> None:
    """Say again, now and then, what is open to other machines."""
    while True:
        await asyncio.sleep(_REPEATED_S)
        logger.warning("--insecure: %s", open_to)


def recovery_lines(partitions: Iterable[Partition]) -> list[str]:
    """What recovery scanned in all, and what it found wrong partition by partition."""
    reports = [(partition.id, partition.recovery) for partition in partitions]
    scanned = sum(report.scanned_bytes for _, report in reports)
    lines = []
    if scanned:
        count = sum(1 for _, report in reports if report.scanned_bytes)
        lines.append(f"scanned {scanned} bytes in {count} partitions that were not closed cleanly")
    for partition_id, report in reports:
        said = []
        if report.cut_bytes:
            said.append(f"cut a torn tail of {report.cut_bytes} bytes ({report.cut_reason})")
        if report.damage:
            said.append(f"{len(report.damage)} damaged stretches, left for readers to step over")
        if report.missing_below_checkpoint:
            said.append(f"{report.missing_below_checkpoint} offsets that were on the disk are gone")
        if report.finished_swaps:
            said.append(f"finished {report.finished_swaps} interrupted compactions")
        if said:
            lines.append(f"{partition_id}: {'; '.join(said)}")
    if len(lines) > _NAMED_PARTITIONS:
        lines[_NAMED_PARTITIONS:] = [f"and {len(lines) - _NAMED_PARTITIONS} partitions more"]
    return lines


def process_age_s() -> float | None:
    """How long this process has been running, to 10 ms; None where nobody can tell."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started_s
    except (OSError, ValueError, IndexError, AttributeError):
        return None
