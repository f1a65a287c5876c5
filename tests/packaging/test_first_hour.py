"""The first hour of a new user: the tutorials in an environment that holds a release alone.

The commands that install are run as well, with the release in place of an index. What each page
takes is printed.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.doc_pages import DOCS, read_page
from support.doc_runs import run_page
from support.doc_scripts import draw_ports, environment_of, starts_a_broker
from support.etcd import need_etcd
from support.releases import run_outside
from support.server import ServerProcess

if TYPE_CHECKING:
    from support.releases import Released

PAGES = (
    "tutorials/first-message.md",
    "tutorials/queue-worker.md",
    "tutorials/first-pipeline.md",
    "tutorials/cluster-on-a-laptop.md",
    "how-to/backup.md",
)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def environment(released: Released, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables with which pip finds the release, and the environment of the first page."""
    folder = tmp_path_factory.mktemp("newcomer")
    (install,) = (
        block
        for block in read_page(DOCS / PAGES[0]).blocks
        if block.reason.startswith("installs packages")
    )
    links = " ".join(filter(None, (os.environ.get("PIP_FIND_LINKS"), str(released.wheel.parent))))
    run_outside("bash", "-ec", install.text, cwd=folder, PIP_FIND_LINKS=links)
    return {"PIP_FIND_LINKS": links, "PIP": "pip", "PYTHON": str(folder / "goqueue-env/bin/python")}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_works_with_nothing_but_what_it_installs(
    name: str,
    environment: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    began_s = time.monotonic()
    _try_page(name, environment, tmp_path)
    with capsys.disabled():
        sys.stdout.write(f"\n{name}: {time.monotonic() - began_s:.0f} s\n")


def _try_page(name: str, environment: dict[str, str], tmp_path: Path) -> None:
    page = read_page(DOCS / name)
    if "cluster" in page.words:
        need_etcd()
    if "pipeline" in name and shutil.which("java") is None:
        pytest.skip("Java is not installed (Debian: apt-get install default-jre-headless)")
    ports = draw_ports()
    variables = environment_of(ports, environment["PYTHON"]) | environment
    del variables["PYTHONPATH"]  # nothing of this checkout
    if starts_a_broker(page):
        run_page(page, tmp_path, ports, variables)
        return
    server = ServerProcess(tmp_path / "data")
    server.COMMAND = (str(Path(environment["PYTHON"]).with_name("goqueue")), "server")
    server.kafka_port, server.http_port, server.grpc_port = ports.kafka, ports.http, ports.grpc
    server.start()
    try:
        run_page(page, tmp_path, ports, variables)
    finally:
        server.close()
