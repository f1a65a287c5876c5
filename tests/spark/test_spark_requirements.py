"""What Spark needs of a machine, looked for before anything is done."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from goqueue.spark.errors import SparkMissingError
from goqueue.spark.requirements import check_spark, use_own_python

JAVA = """#!/bin/sh
echo 'openjdk version "{version}" 2024-01-01' >&2
"""


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing: its folder of programs, which is all of the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    return folder


def test_without_java_it_says_which_to_install(machine: Path) -> None:
    with pytest.raises(SparkMissingError, match=r"Java 17 or newer, and there is none: .*apt-get"):
        check_spark("local[2]")


def test_java_of_a_spark_connect_server_is_not_looked_for_here(machine: Path) -> None:
    check_spark("sc://host:15002")


@pytest.mark.parametrize("version", ["1.8.0_412", "11.0.2"])
def test_an_old_java_is_named_with_its_version(machine: Path, version: str) -> None:
    java = program(machine / "java", JAVA.format(version=version))
    major = version.removeprefix("1.").partition(".")[0]
    with pytest.raises(SparkMissingError, match=f"{java} is Java {major}: set JAVA_HOME"):
        check_spark()


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_a_java_that_will_do_is_taken(machine: Path, version: str) -> None:
    program(machine / "java", JAVA.format(version=version))
    check_spark()


def test_java_home_counts_before_the_path_as_it_does_for_spark(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(machine / "java", JAVA.format(version="17.0.15"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    with pytest.raises(SparkMissingError, match=r"JAVA_HOME is .*jdk, which has no bin/java"):
        check_spark()
    program(tmp_path / "jdk/bin/java", JAVA.format(version="21.0.1"))
    check_spark()


def test_a_package_that_is_missing_is_named(machine: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SparkMissingError, match=r"there is no pyarrow: pip install 'goqueue\[sp"):
        check_spark()


# --- The Python of tasks -------------------------------------------------------------------------


def test_tasks_run_under_this_python_where_the_path_leads_to_another(machine: Path) -> None:
    use_own_python()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_another_python3_of_the_path_does_not_count(machine: Path) -> None:
    program(machine / "python3", "#!/bin/sh\n")
    use_own_python()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_an_environment_that_is_activated_is_left_alone(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a cluster, `python3` may be elsewhere on each machine."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    use_own_python()
    assert "PYSPARK_PYTHON" not in os.environ


def test_the_python_that_was_asked_for_stays(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python3")
    use_own_python()
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python3"


PROGRAM = """
import goqueue.spark
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
options = {"bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "columns": "offset,value"}
print(spark.read.format("goqueue").options(**options).load().columns)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_program_of_an_environment_that_is_not_activated_finds_the_source() -> None:
    """`venv/bin/python program.py`, with a python3 on the PATH that has nothing of ours."""
    left_out = {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PATH", "PYTHONPATH"}
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**environment, "PATH": "/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['offset', 'value']"
