"""A process that appends as fast as it can and tells what was acknowledged, until it is killed.

Each line on its output is `<first offset> <end offset> <number>`: the batch with that number in its
records was acknowledged under `always`.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path

from goqueue.storage.config import Fsync, LogConfig
from goqueue.storage.flushing.flusher import Flusher
from goqueue.storage.log import Log
from support.batches import batch

APPENDERS = 64


def config() -> LogConfig:
    return LogConfig(fsync=Fsync.ALWAYS, segment_bytes=200_000)


def numbered(number: int) -> bytearray:
    """The batch of a number: its size varies, every record carries the number."""
    return batch(1 + number % 4, value=b"%d " % number + b"." * (number * 37 % 400))


async def append_for_ever(folder: Path, first: int) -> None:
    log = Log(folder, config())
    flusher = Flusher(log)
    numbers = itertools.count(first)

    async def appender() -> None:
        while True:
            number = next(numbers)
            appended = log.append(numbered(number), leader_epoch=number // 5000)
            await flusher.durable(appended.end_offset)
            print(appended.first_offset, appended.end_offset, number, flush=True)  # noqa: T201

    await asyncio.gather(*(appender() for _ in range(APPENDERS)))


if __name__ == "__main__":
    asyncio.run(append_for_ever(Path(sys.argv[1]), int(sys.argv[2])))
