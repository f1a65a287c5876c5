"""What Spark needs of a machine: itself, Arrow, Java, and for tasks a Python with this package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from goqueue.spark.errors import SparkMissingError

INSTALL: Final = "pip install 'goqueue[spark]'"
_PACKAGES: Final = ("pyspark", "pyarrow")
_MIN_JAVA: Final = 17
_ANSWER_S: Final = 30.0
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_GET_JAVA: Final = (
    "install one, as in apt-get install openjdk-17-jre-headless or brew install openjdk@17"
)


def use_own_python() -> None:
    """Have tasks run under this interpreter, unless PYSPARK_PYTHON names another.

    Spark's own default is whichever `python3` is found first on the PATH. For a program that was
    started as `venv/bin/python` that is another one, which has neither PySpark nor this package:
    Spark then says DATA_SOURCE_NOT_FOUND. It only counts before a session is started.
    """
    if "PYSPARK_PYTHON" in os.environ or not sys.executable:
        return
    found, own = shutil.which("python3"), Path(sys.executable)
    # A link in the folder of a virtual environment is not what it leads to: folders are compared.
    is_own = found is not None and Path(found).parent == own.parent
    if not (is_own and Path(found or "").resolve() == own.resolve()):
        os.environ["PYSPARK_PYTHON"] = sys.executable


def check_spark(master: str = "local[*]") -> None:
    """Check what Spark needs to start here, before anything else is done.

    Raises:
        SparkMissingError: something is not there; says what to install.
    """
    for package in _PACKAGES:
        if find_spec(package) is None:
            raise SparkMissingError(f"Spark cannot run here: there is no {package}: {INSTALL}")
    if not master.startswith("sc://"):  # then Java is at the server
        check_java()


def check_java() -> str:
    """Which Java Spark would start on, as `17 at /usr/bin/java`.

    Raises:
        SparkMissingError: there is none, or it is too old; says what to install.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(Path(home, "bin", "java") if home else "java")
    if java is None and home:
        raise SparkMissingError(
            f"Spark needs Java {_MIN_JAVA} or newer, and JAVA_HOME is {home}, which has no "
            "bin/java: unset it, or set it to the folder of a Java"
        )
    if java is None:
        raise SparkMissingError(
            f"Spark needs Java {_MIN_JAVA} or newer, and there is none: no java is on the PATH, "
            f"and JAVA_HOME is not set: {_GET_JAVA}"
        )
    version = _java_version(java)
    if version is not None and version < _MIN_JAVA:
        raise SparkMissingError(
            f"Spark needs Java {_MIN_JAVA} or newer, and {java} is Java {version}: set JAVA_HOME "
            f"to the folder of a newer one, or {_GET_JAVA}"
        )
    return f"{version or 'unknown version'} at {java}"


def _java_version(java: str) -> int | None:
    """The major version; None where it says something else, and Spark may try."""
    try:
        done = subprocess.run(  # noqa: S603 - the Java that Spark would start
            [java, "-version"], capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stderr)
    return None if found is None else int(found[1])
