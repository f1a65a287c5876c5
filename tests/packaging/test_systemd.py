"""The unit for systemd: it verifies, and what it starts is a server."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Final

import pytest

from support.doc_pages import DOCS, read_page
from support.doc_scripts import Ports
from support.first_clients import (
    publish_by_curl,
    publish_by_kafka,
    read_by_curl,
    read_by_kafka,
)
from support.server import FOR_TESTS, ServerProcess

UNIT: Final = Path(__file__).parents[2] / "deploy/systemd/goqueue.service"
PROGRAM: Final = Path(sys.executable).parent / "goqueue"


def placed(folder: Path) -> str:
    """The unit for programs and folders that are here."""
    text = UNIT.read_text().replace("/opt/goqueue/bin/goqueue", str(PROGRAM))
    text = text.replace("/etc/goqueue", str(folder / "etc"))
    return text.replace("/var/lib/goqueue", str(folder / "data"))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_the_unit_verifies(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(placed(tmp_path))
    command = ["systemd-analyze", "verify", "--recursive-errors=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")


class UnitProcess(ServerProcess):
    """What a unit starts, with its own flags and no others."""

    line = ""

    @property
    def command(self) -> list[str]:
        return shlex.split(self.line)


def write_settings_of_the_page(folder: Path, server: ServerProcess) -> None:
    """As the page about deploying says, with ports and folders of the test's own."""
    page = read_page(DOCS / "how-to/deploy.md")
    (block,) = (each for each in page.blocks if ">/etc/goqueue/config.yaml" in each.text)
    ports = Ports(server.kafka_port, server.http_port, server.grpc_port, internal=0)
    script = ports.moved(block.text).replace("/etc/goqueue", str(folder / "etc"))
    subprocess.run(["bash", "-ec", script], check=True, timeout=100)


def test_what_the_unit_starts_serves_clients_and_keeps_data_across_a_restart(
    tmp_path: Path,
) -> None:
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    unit.read_string(placed(tmp_path))
    service = unit["Service"]
    server = UnitProcess(tmp_path / "data")
    write_settings_of_the_page(tmp_path, server)
    server.line = service["ExecStart"]
    name, _, value = service["Environment"].partition("=")
    server.environment = {name: value, **FOR_TESTS}
    server.start()
    try:
        publish_by_kafka(server, "greetings", "hello")
        publish_by_curl(server, "letters", "by curl")
        server.restart()
        assert read_by_kafka(server, "greetings") == "hello"
        assert read_by_curl(server, "letters") == ["by curl"]
        listing = [str(PROGRAM), "--server", server.http_url, "topic", "list"]
        assert "greetings" in subprocess.check_output(listing, text=True, timeout=100)
        assert server.stop() == 0
    finally:
        server.close()
    assert (tmp_path / "data/metadata.db").exists()
