"""What `pip install` gives: a wheel with both packages, and a Spark that finds the source in it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from goqueue.testing import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
SCRIPT = """
import os, sys
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.memory", "512m")
    .getOrCreate()
)
reader = spark.read.format("goqueue").option("bootstrap.servers", sys.argv[1])
rows = reader.option("subscribe", "wheel").load().collect()
import goqueue
print("FOUND", [bytes(row.value).decode() for row in rows], goqueue.__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    sources = tmp_path_factory.mktemp("tree") / "goqueue"  # a build leaves things behind
    leave_out = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
    shutil.copytree(ROOT / "src", sources / "src", ignore=leave_out)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    subprocess.run([*build, "-w", str(folder), str(sources)], check=True, timeout=300)
    (made,) = folder.glob("goqueue-*.whl")
    return made


def test_the_wheel_holds_the_module_that_spark_looks_for(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"pyspark_goqueue/__init__.py", "goqueue/spark/source.py"} <= names
    assert {"pyspark_goqueue_lake/__init__.py", "goqueue/spark/lake/source.py"} <= names


def test_a_fresh_install_is_found_without_a_register(wheel, tmp_path):
    folder = tmp_path / "fresh"
    venv.create(folder, with_pip=False)
    packages = next((folder / "lib").glob("python*")) / "site-packages"
    with zipfile.ZipFile(
        wheel
    ) as archive:  # what an installer does with a wheel, without a network
        archive.extractall(packages)
    others = next(path for path in map(Path, sys.path) if path.name == "site-packages")
    (packages / "others.pth").write_text(str(others) + "\n")  # pyspark, pyarrow and the rest
    with Broker() as broker:
        broker.create_topic("wheel")
        broker.publish("wheel", "hello")
        done = subprocess.run(
            [str(folder / "bin" / "python"), "-c", SCRIPT, broker.kafka_address],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            cwd=tmp_path,
        )
    assert "FOUND ['hello']" in done.stdout, done.stderr[-3000:]
    assert str(packages) in done.stdout
