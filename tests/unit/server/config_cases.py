"""Configurations for tests, out of texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from goqueue.server.config_load import load_config
from goqueue.server.config_table import ConfigError

if TYPE_CHECKING:
    from goqueue.server.config import Config
    from goqueue.server.config_table import Problem


def problems_of(
    arguments: list[str] | None = None,
    environment: dict[str, str] | None = None,
    file: str | None = None,
) -> list[Problem]:
    try:
        load(arguments, environment, file)
    except ConfigError as error:
        return list(error.problems)
    return []


def load(
    arguments: list[str] | None = None,
    environment: dict[str, str] | None = None,
    file: str | None = None,
) -> Config:
    flags = list(arguments or [])
    if file is not None:
        Path("goqueue.yaml").write_text(file, encoding="utf-8")
        flags += ["--config", "goqueue.yaml"]
    return load_config(flags, environment or {})
