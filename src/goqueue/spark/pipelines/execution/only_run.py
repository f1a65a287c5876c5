"""One run of a pipeline at a time: two with the same checkpoints would end each other's queries."""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from goqueue.spark.pipelines.model import Pipeline, PipelineError, Problem
from goqueue.spark.pipelines.naming import checkpoint_of
from goqueue.spark.pipelines.paths import is_elsewhere

if TYPE_CHECKING:
    from collections.abc import Iterator


_FILE: Final = "~lock"
"""Beside the checkpoints of the sinks, none of which can have such a name."""


@contextmanager
def only_run(pipeline: Pipeline) -> Iterator[None]:
    """Hold the checkpoints of a pipeline; the lock ends with this process, however it ends.

    Where this process does not see them, as in an object store, Spark itself notices the other run,
    when both write down the same micro-batch, and fails one of the two.

    Raises:
        PipelineError: another run holds them.
    """
    lock = _opened(pipeline)
    if lock is None:
        yield
        return
    with lock:
        _take(lock, pipeline)
        yield


def _opened(pipeline: Pipeline) -> IO[str] | None:
    if pipeline.is_remote or is_elsewhere(pipeline.checkpoints):
        return None
    file = Path(checkpoint_of(pipeline, _FILE))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return file.open("a+", encoding="utf-8")
    except OSError:  # it may be a path of the cluster's file system, which only Spark can open
        return None


def _take(lock: IO[str], pipeline: Pipeline) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        holder = lock.read().strip() or "another process"
        text = f"pipeline {pipeline.name} runs already, in {holder}: stop that run, or rename this"
        raise PipelineError((Problem(text, path="name"),), pipeline.file) from error
    lock.truncate(0)
    lock.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    lock.flush()
