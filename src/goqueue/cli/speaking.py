"""Who may speak on standard error while a command runs."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def speaking_alone(log: Path) -> Iterator[None]:
    """Send what started processes say on standard error to a file, for as long as they live.

    The Python of this process goes on to speak on the real one: what it shows is drawn while Spark
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
