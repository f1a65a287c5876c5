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


def test_what_the_unit_starts_serves_and_stops_within_its_time(tmp_path: Path) -> None:
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    unit.read_string(placed(tmp_path))
    service = unit["Service"]
    (tmp_path / "etc").mkdir()
    server = UnitProcess(tmp_path / "data")
    ports = {"kafka": server.kafka_port, "http": server.http_port, "grpc": server.grpc_port}
    lines = [f"  {name}: 127.0.0.1:{port}" for name, port in ports.items()]
    (tmp_path / "etc/config.yaml").write_text("\n".join(["listeners:", *lines, ""]))
    server.line = service["ExecStart"]
    name, _, value = service["Environment"].partition("=")
    server.environment = {name: value, **FOR_TESTS}
    server.start()
    try:
        assert server.get("/readyz")[0] == 200
        assert server.stop() == 0
    finally:
        server.close()
    assert (tmp_path / "data/metadata.db").exists()
