"""Standard error and standard output of started processes, sent elsewhere while a command runs."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def stderr_to_file(log: Path) -> Iterator[None]:
    """Send standard error of started processes to a file, for as long as they live.

    The Python of this process still writes to the real one: what it shows is drawn while Spark
    starts and works, and Spark's Java and workers outlive the block.
    """
    before, python = sys.stderr, sys.__stderr__
    before.flush()
    real = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    if python is not None and before is python:  # and not what a test has put there
        # It stays open: log handlers that are made in the block keep it.
        sys.stderr = open(os.dup(real), "w", 1, python.encoding, python.errors)  # noqa: SIM115, PTH123 - as said; a descriptor has no path
    try:
        yield
    finally:
        sys.stderr.flush()
        sys.stderr = before
        os.dup2(real, 2)
        os.close(real)


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Send standard output to standard error: only the report that follows goes to standard output.

    That holds for started processes as long as they live, and for the Python of this process.
    """
    sys.stdout.flush()
    real = os.dup(1)
    os.dup2(2, 1)
    try:
        # A stream of its own: who writes to standard error is decided elsewhere.
        with open(os.dup(2), "w", 1, "utf-8", "replace") as said, redirect_stdout(said):  # noqa: PTH123 - a descriptor has no path
            yield
    finally:
        os.dup2(real, 1)
        os.close(real)
