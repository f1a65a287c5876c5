"""The services of a compose file as containers: their command, environment, volumes and user."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

import yaml

from support.containers import IMAGE_USER, ROOT, Container

if TYPE_CHECKING:
    from pathlib import Path

FILE: Final = ROOT / "deploy/compose/compose.yaml"
PROGRAM: Final = "/opt/goqueue/bin/goqueue"
_VARIABLE: Final = re.compile(r"\$\{\w+:-(.*?)\}")


def services() -> dict[str, dict[str, Any]]:
    """All of them, with the defaults of variables."""
    text = _VARIABLE.sub(r"\1", FILE.read_text())
    found: dict[str, dict[str, Any]] = yaml.safe_load(text)["services"]
    return found


def container(name: str, service: dict[str, Any], folder: Path) -> Container:
    """A service of our image; named volumes are folders in `folder`."""
    assert service["read_only"]
    volumes = {place: _volume(source, folder) for source, place in mounts(service)}
    volumes["/tmp"] = _volume(f"tmp-{name}", folder)
    command = [PROGRAM, *service["command"]]
    return Container(name, command, service.get("environment", {}), volumes)


def published_ports(name: str, service: dict[str, Any]) -> list[str]:
    """Its ports on the host, as `support.published_ports` takes them."""
    pairs = (each.split(":") for each in service["ports"])
    return [f"{outer}={name}:{inner}" for outer, inner in pairs]


def mounts(service: dict[str, Any]) -> list[tuple[str, str]]:
    """What is mounted where."""
    parts = (each.split(":") for each in service.get("volumes", []))
    return [(source, place) for source, place, *_ in parts]


def _volume(name: str, folder: Path) -> Path:
    place = folder / f"volume-{name}"
    if not place.exists():
        place.mkdir()
        os.chown(place, IMAGE_USER, IMAGE_USER)
    return place
