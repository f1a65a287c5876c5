"""One configuration out of all sources, or one error with everything that is wrong."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from goqueue.server.config import SECTIONS, TABLE, Config
from goqueue.server.config_checks import check_config
from goqueue.server.config_kinds import Address, MismatchError, Whole
from goqueue.server.config_sources import (
    Given,
    read_environment,
    read_file,
    read_flags,
    shorten,
)
from goqueue.server.config_table import ConfigError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_PORT = Whole(0, 65535)


def load_config(
    arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> Config:
    """The configuration that these flags, this environment and their file make together.

    Raises:
        ConfigError: with every problem there is, not only the first.
    """
    flags = read_flags(TABLE, arguments)
    variables = read_environment(TABLE, os.environ if environment is None else environment)
    location = flags.file or variables.file
    readings = [variables, flags]
    if location is not None:
        readings.insert(0, read_file(TABLE, *location))
    problems = [problem for reading in readings for problem in reading.problems]
    given = [item for reading in readings for item in reading.given]
    config = _assemble(given, problems)
    problems.extend(check_config(config, {problem.setting for problem in problems}))
    if problems:
        raise ConfigError(problems)
    return config


def _assemble(given: Iterable[Given], problems: list[Problem]) -> Config:
    """Later values win; one that cannot be read is a problem, and the value before it stays."""
    values: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    sources: dict[str, str] = {}
    # Ports last: they replace a part of an address that may come after them.
    for item in sorted(given, key=lambda item: item.port_only):
        row = item.setting
        section = values[row.section]
        try:
            if item.port_only:
                host = section.get(row.attribute, row.default).host
                section[row.attribute] = Address(host, _PORT.parse(item.raw))
            else:
                section[row.attribute] = row.parse(item.raw)
        except MismatchError:
            expected = _PORT.expected if item.port_only else row.kind.expected
            found = shorten(row.show(item.raw))
            problems.append(Problem(row.full_name, item.source, found, expected))
        else:
            sources[row.full_name] = item.source
    made = {section: kind(**values[section]) for section, kind in SECTIONS.items()}
    return Config(**made, sources=sources)
