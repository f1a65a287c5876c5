"""What the page "A cluster on a laptop" shows happens: a node is killed, and its consumer counts.

The programs of the page are run as they are, with fewer messages and the addresses of the test.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from goqueue.testing import Cluster
from support.doc_pages import DOCS, read_page
from support.etcd import need_etcd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = read_page(DOCS / "tutorials" / "cluster-on-a-laptop.md")
BOOTSTRAP = "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
SECOND = "http://127.0.0.1:8081"
COUNT = 120
"""In place of 400: six seconds, in which a node dies and others lead what it led."""


PROGRAMS = {block.title: block.text for block in PAGE.blocks if block.title}
COMMANDS = [
    line
    for block in PAGE.blocks
    if block.language == "sh"
    for line in block.text.replace("\\\n", "").splitlines()
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_etcd()
    with Cluster(3) as cluster:
        yield cluster


def program(cluster: Cluster, folder: Path, name: str) -> list[str]:
    text = PROGRAMS[name].replace("400", str(COUNT)).replace(BOOTSTRAP, cluster.bootstrap)
    assert cluster.bootstrap in text
    (folder / name).write_text(text)
    return [sys.executable, str(folder / name)]


def goqueue(cluster: Cluster, command: str) -> str:
    """Run a command of the page, without the `grep` behind it, where the test's cluster is."""
    assert command in COMMANDS
    words = command.partition(" | ")[0].replace(SECOND, cluster.http_url(2)).split()[1:]
    if words[:2] in (["cluster", "stop"], ["cluster", "start"]):
        words += ["--folder", str(cluster.folder)]
    elif "-s" not in words:
        words += ["-s", cluster.http_url(2 if words[0] == "cluster" else 1)]
    done = subprocess.run(
        [sys.executable, "-m", "goqueue.cli", *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def lines_of(told: str, topic: str = "orders") -> list[list[str]]:
    return [line.split() for line in told.splitlines() if line.startswith(topic)]


def test_a_node_is_killed_under_the_producer_of_the_page(cluster: Cluster, tmp_path: Path) -> None:
    goqueue(cluster, "goqueue topic create orders --partitions 6")
    with subprocess.Popen(
        program(cluster, tmp_path, "produce.py"), stdout=subprocess.PIPE, text=True
    ) as producer:
        time.sleep(2)
        goqueue(cluster, "goqueue cluster stop --node 1 --kill")
        said, _ = producer.communicate(timeout=120)
    assert said.splitlines()[-1] == f"{COUNT} of {COUNT} acknowledged", said
    assert "failed" not in said
    counted = subprocess.run(
        program(cluster, tmp_path, "count.py"), capture_output=True, text=True, check=True
    )
    assert counted.stdout == f"{COUNT} messages, {COUNT} of them different\n"
    behind = goqueue(
        cluster,
        f"goqueue cluster partitions --under-replicated -s {SECOND} | grep -e topic -e orders",
    )
    assert behind.splitlines()[0].split() in PAGE_HEADERS
    assert {line[2] for line in lines_of(behind)} == {"2", "3"}
    goqueue(cluster, "goqueue cluster start")
    deadline = time.monotonic() + 60
    while "yes" not in (told := goqueue(cluster, "goqueue cluster health")).splitlines()[0]:
        assert time.monotonic() < deadline, told
        time.sleep(0.2)
    assert {line.split()[0] for line in told.splitlines() if line} <= set(PAGE_HEALTH)


TEXTS = [block.text for block in PAGE.blocks if block.language == "text"]
PAGE_HEADERS = [line.split() for text in TEXTS for line in text.splitlines() if "epoch" in line]
PAGE_HEALTH = [line.split()[0] for text in TEXTS for line in text.splitlines() if line.strip()]
