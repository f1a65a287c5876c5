"""Checks of this machine: the disk, the limits of the process, and the programs beside GoQueue."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Final

from goqueue.cli.doctor.findings import Finding, failure, ok, warning
from goqueue.cli.times import show_size

_LOW_BYTES: Final = 2 << 30
_NO_BYTES: Final = 200 << 20
_LOW_SHARE: Final = 0.1
_SYNCS: Final = 10
"""Writes of 4 KB that are synced, one after the other."""
_SLOW_SYNC_S: Final = 0.02
_TEST_BYTES: Final = 16 << 20
_FEW_FILES: Final = 4096
_SOME_FILES: Final = 65_536
_LEAST_SPARK: Final = (4, 2)


def check_python() -> Finding:
    """The interpreter, and whether the compiled codec is there."""
    from goqueue.records import IMPLEMENTATION  # noqa: PLC0415 - start-up stays light

    found = (
        f"{platform.python_implementation()} {platform.python_version()}, {IMPLEMENTATION} codec"
    )
    if IMPLEMENTATION == "native":
        return ok("python", found)
    return warning(
        "python",
        found,
        "batches are encoded in pure Python, which is many times slower: install a wheel for this "
        "platform, or a C compiler and install again",
    )


def check_space(folder: Path) -> Finding:
    """Whether the data folder has room."""
    place = _existing(folder)
    try:
        usage = shutil.disk_usage(place)
    except OSError as error:
        return failure("disk space", f"{place}: {error.strerror}", "name another broker.data_dir")
    share = usage.free / usage.total if usage.total else 0.0
    found = f"{show_size(usage.free)} of {show_size(usage.total)} free ({share:.0%}) for {folder}"
    advice = "free some, shorten topics.retention, or put broker.data_dir on a larger disk"
    if usage.free < _NO_BYTES:
        return failure("disk space", found, advice)
    if usage.free < _LOW_BYTES or share < _LOW_SHARE:
        return warning("disk space", found, advice)
    return ok("disk space", found)


def check_speed(folder: Path) -> Finding:
    """How fast the disk of the data folder writes and syncs."""
    place = _existing(folder)
    try:
        with tempfile.TemporaryFile(dir=place, buffering=0) as file:
            number = file.fileno()
            syncs = [_timed_sync(number) for _ in range(_SYNCS)]
            begin_s = time.monotonic()
            chunk = bytes(1 << 20)
            for _ in range(_TEST_BYTES // len(chunk)):
                os.write(number, chunk)
            os.fsync(number)
            took_s = max(time.monotonic() - begin_s, 1e-6)
    except OSError as error:
        return warning(
            "disk speed",
            f"{place} cannot be written: {error.strerror}",
            "run doctor as the user of the server, or make the folder writable",
        )
    sync_s = median(syncs)
    speed = show_size(_TEST_BYTES / took_s)
    found = f"a synced 4 KB write takes {sync_s * 1000:.1f} ms, {speed}/s sequentially"
    if sync_s > _SLOW_SYNC_S:
        return warning(
            "disk speed",
            found,
            "publishing with fsync=always waits for it: use a faster disk, or fsync=interval",
        )
    return ok("disk speed", found)


def _timed_sync(number: int) -> float:
    begin_s = time.monotonic()
    os.write(number, bytes(4096))
    os.fsync(number)
    return time.monotonic() - begin_s


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    folder = folder.absolute()
    return next((each for each in (folder, *folder.parents) if each.is_dir()), Path("/"))


def check_descriptors() -> Finding:
    """How many files a server that is started here may open."""
    if sys.platform == "win32":
        return ok("file descriptors", "no limit on this system")
    import resource  # noqa: PLC0415 - absent on Windows

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= _SOME_FILES:
        return ok("file descriptors", f"a server may open {'any number' if hard < 0 else hard}")
    advice = (
        f"raise it to {_SOME_FILES} or more: `ulimit -Hn`, LimitNOFILE= of systemd, or "
        "/etc/security/limits.conf"
    )
    found = f"a server may open {hard}"
    make = failure if hard < _FEW_FILES else warning
    return make("file descriptors", found, advice)


def check_etcd() -> Finding:
    """The etcd that a cluster needs."""
    from goqueue.server.etcd.binary import EtcdError, find_etcd  # noqa: PLC0415 - as above

    try:
        found = find_etcd()
    except EtcdError as error:
        return warning(
            "etcd", str(error), "only clusters need it: `goqueue cluster install-etcd` installs it"
        )
    if found.warning is not None:
        return warning("etcd", f"{found.version} at {found.path}", found.warning)
    return ok("etcd", f"{found.version} at {found.path}")


def check_java() -> Finding:
    """The Java that Spark runs on."""
    from goqueue.spark import requirements  # noqa: PLC0415 - start-up stays light
    from goqueue.spark.errors import SparkMissingError  # noqa: PLC0415 - as above

    try:
        return ok("java", requirements.check_java())
    except SparkMissingError as error:
        return warning("java", str(error), "only pipelines and jobs need it")


def check_spark() -> Finding:
    """The pyspark that pipelines and jobs run on."""
    advice = "only pipelines and jobs need it: pip install 'goqueue[spark]'"
    if importlib.util.find_spec("pyspark") is None:
        return warning("pyspark", "not installed", advice)
    version = metadata.version("pyspark")
    if tuple(int(each) for each in re.findall(r"\d+", version)[:2]) < _LEAST_SPARK:
        return warning("pyspark", f"{version} is too old", advice)
    if importlib.util.find_spec("pyarrow") is None:
        return warning("pyspark", f"{version}, without pyarrow", advice)
    return ok("pyspark", version)
