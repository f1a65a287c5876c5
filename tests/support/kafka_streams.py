"""A Kafka Streams application in processes of its own: `streams_app/WordCount.java`.

Maven brings Kafka Streams, and a JDK compiles the application; where either is missing, or Maven
cannot reach its repository, the tests are skipped.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from support.server import ServerProcess

SOURCE: Final = Path(__file__).parent / "streams_app"
_MAVEN_S: Final = 600.0
_MAVEN: Final = ("mvn", "-q", "-B", "dependency:build-classpath")


def compile_word_count(folder: Path) -> str:
    """Compile the application into a folder; returns its class path."""
    for tool in ("mvn", "javac", "java"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed (Debian: apt-get install maven default-jdk)")
    found = folder / "classpath"
    asked = subprocess.run(
        [*_MAVEN, "-f", str(SOURCE / "pom.xml"), f"-Dmdep.outputFile={found}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=_MAVEN_S,
    )
    if asked.returncode != 0:
        pytest.skip(f"Maven cannot bring Kafka Streams: {asked.stdout[-500:]}")
    class_path = f"{folder}:{found.read_text().strip()}"
    subprocess.run(
        ["javac", "-cp", class_path, "-d", str(folder), str(SOURCE / "WordCount.java")],
        check=True,
        timeout=_MAVEN_S,
    )
    return class_path


class WordCount:
    """One instance of the application: a process with two threads."""

    def __init__(
        self, server: ServerProcess, class_path: str, state: Path, application: str
    ) -> None:
        self.log = state.with_suffix(".log")
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [
                    *("java", "-Xmx256m", "-cp", class_path, "WordCount"),
                    *(server.kafka_address, application, str(state), "lines", "counted"),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def states(self) -> list[str]:
        """Every state that the application was in, and how it failed if it did."""
        lines = self.log.read_text().splitlines()
        return [line for line in lines if line.startswith(("STATE ", "FAILED "))]

    def kill(self) -> None:
        """As a crash does: nothing is said to the broker."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """Let it leave its group."""
        self._process.terminate()
        return self._process.wait(120)
