"""Where and when a run was made, and with what."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
_POM: Final = Path(__file__).parent / "kafka-pom.xml"
_CLIENTS: Final = ("confluent-kafka", "nats-py", "redis")
_PROGRAMS: Final = {
    "Java": ["java", "-version"],
    "NATS server": ["nats-server", "--version"],
    "Redis": ["redis-server", "--version"],
}
_NUMBER: Final = re.compile(r"\d+\.\d+(?:\.\d+)*")


def describe_session() -> dict[str, Any]:
    """The commit, the moment and the machine: no names of hosts, users or folders."""
    return {
        "commit": _git("rev-parse", "HEAD"),
        # The results are left out: recording one must not make the next run look changed.
        "dirty": _git("status", "--porcelain", "--", ".", ":!benchmarks/results") != "",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cpu": _cpu_model(),
            "cores": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "python": platform.python_version(),
            "kernel": f"{platform.system()} {platform.release()}",
        },
        "versions": versions_of_others(),
    }


def _git(*arguments: str) -> str | None:
    """What git answers, or None outside a repository: then the commit is unknown, and dirty."""
    command = ["git", "-C", str(ROOT), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.lower().startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def versions_of_others() -> dict[str, str]:
    """What GoQueue is measured against, and by which clients, as far as it is on this machine."""
    versions: dict[str, str] = {}
    found = re.search(r"kafka_2\.13</artifactId>\s*<version>(.+?)<", _POM.read_text())
    if found is not None:
        versions["Apache Kafka"] = found[1]
    for name, command in _PROGRAMS.items():
        if (version := _said_by(command)) is not None:
            versions[name] = version
    for name in _CLIENTS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _said_by(command: list[str]) -> str | None:
    """The version that a program prints; None where it is not installed."""
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    program = shutil.which(command[0], path=beside)
    if program is None:
        return None
    done = subprocess.run([program, *command[1:]], capture_output=True, text=True, check=False)
    found = _NUMBER.search(done.stdout + done.stderr)
    return found[0] if found is not None else None
