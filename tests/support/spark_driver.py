"""A Spark job in a process that a test may kill, with everything that it has started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from support.process_sessions import kill_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

WAIT_S: Final = 240.0
_SHOWN_BYTES: Final = 5000
CONFIGURATION: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


class Driver:
    """A driver in a session of its own, so that all of its processes can be found and killed."""

    def __init__(self, script: ModuleType, said: dict[str, Any]) -> None:
        environment = dict(os.environ)
        environment["PYSPARK_PYTHON"] = environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the job
        self.process = subprocess.Popen(
            [sys.executable, str(Path(script.__file__ or "")), json.dumps(said)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            start_new_session=True,
        )

    def kill(self) -> None:
        """`kill -9` for the driver, its JVM and its workers."""
        kill_session(self.process.pid)
        self.process.wait(30)
        self._said.close()

    def last_words(self) -> str:
        """What the job has written at the end."""
        size = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(size - _SHOWN_BYTES, 0))
        return self._said.read().decode(errors="replace")

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert self.process.poll() is None, f"ended before {what}:\n{self.last_words()}"
            assert time.monotonic() < deadline, f"{what}:\n{self.last_words()}"
            time.sleep(0.05)

    def finish(self) -> None:
        assert self.process.wait(WAIT_S) == 0, self.last_words()
