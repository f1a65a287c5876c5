"""What is released: a wheel and a source distribution, built, checked, installed and used."""

from __future__ import annotations

import sys
import tarfile
import venv
import zipfile
from email.parser import Parser
from typing import TYPE_CHECKING

import pytest

from support.first_clients import (
    publish_by_curl,
    publish_by_kafka,
    read_by_curl,
    read_by_kafka,
)
from support.releases import BIN, run_outside
from support.server import ServerProcess

if TYPE_CHECKING:
    from email.message import Message
    from pathlib import Path

    from support.releases import Released

MAX_INSTALLED_BYTES = 90 * 1024 * 1024
"""Of the product and all that it needs, without pip."""
AVRO = '{"schema": "{\\"type\\": \\"int\\"}"}'


@pytest.fixture(scope="module")
def installed(released: Released, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that holds the wheel and what it asks for, and no more."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    site = next(folder.glob("lib/python*/site-packages"))
    quiet = ("--quiet", "--disable-pip-version-check")
    run_outside(sys.executable, "-m", "pip", "--python", folder, "install", *quiet, released.wheel)
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    assert size < MAX_INSTALLED_BYTES, f"{size / 2**20:.0f} MB are installed"
    return folder / "bin"


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def test_an_index_takes_the_files(released: Released) -> None:
    run_outside(BIN / "twine", "check", "--strict", *released)
    if sys.platform == "linux":
        assert "manylinux" in released.wheel.name


def test_the_description_has_no_links_into_a_checkout(released: Released) -> None:
    metadata = metadata_of(released.wheel)
    assert "](docs/" not in metadata.get_payload()
    urls = dict(each.split(", ", 1) for each in metadata.get_all("Project-URL") or [])
    assert {"Documentation", "Repository", "Changelog", "Issues"} <= urls.keys()
    assert f"]({urls['Repository']}/blob/main/docs/how-to/cluster.md)" in metadata.get_payload()


def test_wheel_and_sources_hold_the_console_and_its_licences(released: Released) -> None:
    with zipfile.ZipFile(released.wheel) as archive:
        wheel = set(archive.namelist())
    assert "goqueue/console/static/app.js" in wheel
    assert not any("console/web" in name for name in wheel)
    assert any(name.endswith("licenses/src/goqueue/console/LICENSES.txt") for name in wheel)
    with tarfile.open(released.source) as archive:
        top = archive.getnames()[0].partition("/")[0]
        sources = {name.removeprefix(f"{top}/") for name in archive.getnames()}
    assert {"src/goqueue/records/_native.h", "src/goqueue/build_info.json"} <= sources


def test_a_server_from_the_wheel_serves_clients_and_keeps_data_across_a_restart(
    installed: Path, tmp_path: Path
) -> None:
    assert "native" in run_outside(installed / "goqueue", "version", "--client")
    server = ServerProcess(tmp_path / "data")
    server.COMMAND = (str(installed / "goqueue"), "server")
    server.environment.pop("PYTHONPATH", None)
    server.start()
    address = server.http_url
    try:
        run_outside(installed / "goqueue", "--server", address, "topic", "create", "greetings")
        publish_by_kafka(server, "greetings", "hello")
        publish_by_curl(server, "letters", "by curl")
        server.restart()
        assert read_by_kafka(server, "greetings") == "hello"
        assert read_by_curl(server, "letters") == ["by curl"]
        listed = run_outside(installed / "goqueue", "--server", address, "topic", "list")
        assert "letters" in listed
        refused = run_outside("curl", "--silent", f"{address}/subjects/a/versions", "--json", AVRO)
        assert "goqueue[schemas]" in refused
    finally:
        server.close()


@pytest.mark.slow
def test_a_server_from_the_source_distribution_serves(released: Released, tmp_path: Path) -> None:
    """Installed as one file with pip, which builds it: the way of a machine without a wheel."""
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=False)
    quiet = ("--quiet", "--disable-pip-version-check")
    run_outside(sys.executable, "-m", "pip", "--python", folder, "install", *quiet, released.source)
    server = ServerProcess(tmp_path / "data")
    server.COMMAND = (str(folder / "bin/goqueue"), "server")
    server.environment.pop("PYTHONPATH", None)
    server.start()
    try:
        publish_by_curl(server, "letters", "by curl")
        assert read_by_kafka(server, "letters") == "by curl"
    finally:
        server.close()
