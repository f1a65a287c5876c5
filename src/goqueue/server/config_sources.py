"""Where values come from: the file, the environment and the flags, each read into the same form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from goqueue.server.config_kinds import Switch
from goqueue.server.config_table import ENVIRONMENT_PREFIX, Problem, Setting, fold, nearest

FILE_FLAG: Final = "--config"
FILE_ENVIRONMENT: Final = "GOQUEUE_CONFIG"

CLIENT_ENVIRONMENT: Final = frozenset(
    {
        "GOQUEUE_ADDRESS",
        "GOQUEUE_API_KEY",
        "GOQUEUE_BACKUP_PASSPHRASE",
        "GOQUEUE_BENCH_KAFKA",
        "GOQUEUE_BOOTSTRAP_SERVERS",
        "GOQUEUE_CODEC",
        "GOQUEUE_CONTEXT",
        "GOQUEUE_SERVER",
        "GOQUEUE_SERVERS",
        "GOQUEUE_TIMEOUT",
    }
)
"""What other commands, the record codec and pipelines read: none of it is a setting."""

_SHOWN_CHARS: Final = 100
"""More of a wrong value than this is not shown."""


class Given(msgspec.Struct, frozen=True):
    """Something that a user wrote for a setting."""

    setting: Setting
    raw: object
    source: str
    port_only: bool = False
    """It is the port of an address whose host comes from elsewhere."""


class Reading(msgspec.Struct):
    """What one source gave, and what was wrong with it."""

    given: list[Given] = msgspec.field(default_factory=list)
    problems: list[Problem] = msgspec.field(default_factory=list)
    file: tuple[Path, str] | None = None
    """The configuration file that this source names, and how it names it."""

    def add(self, given: Given) -> None:
        """Take a value, unless this source has already given one for the same setting."""
        same = [
            other
            for other in self.given
            if other.setting is given.setting and other.port_only == given.port_only
        ]
        if same:
            self.problems.append(
                Problem(
                    given.setting.full_name,
                    given.source,
                    f"another value, beside {same[0].source}",
                    "one value only",
                )
            )
        else:
            self.given.append(given)


def read_environment(table: Sequence[Setting], environment: Mapping[str, str]) -> Reading:
    """Every `GOQUEUE_*` variable; one that names no setting is a problem."""
    reading = Reading()
    known = {fold(ENVIRONMENT_PREFIX + row.full_name): row for row in table}
    known |= {fold(row.environment): row for row in table}
    names = [row.environment for row in table]
    for name, raw in sorted(environment.items()):
        if name == FILE_ENVIRONMENT:
            reading.file = (Path(raw), f"environment {name}")
        elif name.startswith(ENVIRONMENT_PREFIX) and name not in CLIENT_ENVIRONMENT:
            row = known.get(fold(name))
            if row is not None:
                reading.add(Given(row, raw, f"environment {name}"))
            else:
                problem = Problem(name, "environment", "an unknown name", nearest(name, names))
                reading.problems.append(problem)
    return reading


def read_flags(table: Sequence[Setting], arguments: Sequence[str]) -> Reading:
    """`--name value` and `--name=value`; a switch also as `--name` and `--no-name`."""
    reading = Reading()
    known = _known_flags(table)
    rest = iter(_split(arguments, {name for name, given in known.items() if _implied(given)}))
    for name, value in rest:
        source = f"flag {name}"
        if name == FILE_FLAG and value:
            reading.file = (Path(value), source)
        elif name in known and name.startswith("--no-") and value is not None:
            problem = Problem(name, "flag", shorten(value), "no value, since it says off by itself")
            reading.problems.append(problem)
        elif name in known and known[name].setting.secret:
            reading.problems.append(_in_process_list(name, known[name].setting))
        elif name in known and value is not None:
            template = known[name]
            reading.add(Given(template.setting, value, source, template.port_only))
        elif name in known and _implied(known[name]):
            reading.add(Given(known[name].setting, known[name].raw, source))
        elif name in known or name == FILE_FLAG:
            reading.problems.append(Problem(name, "flag", "nothing after it", "a value"))
        else:
            expected = nearest(name, [*known, FILE_FLAG])
            reading.problems.append(Problem(name, "flag", "an unknown name", expected))
    return reading


def _in_process_list(flag: str, row: Setting) -> Problem:
    return Problem(
        flag,
        "flag",
        "a secret, which everybody on this machine could read in the list of processes",
        f"it in the environment ({row.environment}) or in the file of {FILE_FLAG}",
    )


def read_file(table: Sequence[Setting], path: Path, source: str) -> Reading:
    """A YAML file of sections; a key that names no setting is a problem."""
    import yaml  # noqa: PLC0415 - a start without a file does not wait for it

    reading = Reading()
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        found = f"{path}: {error.strerror}"
        reading.problems.append(Problem("config", source, found, "a file that can be read"))
        return reading
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        found = " ".join(str(error).split())
        reading.problems.append(Problem("config", f"file {path}", found, "YAML"))
        return reading
    _read_sections(table, document, f"file {path}", reading)
    return reading


def shorten(text: str) -> str:
    """A wrong value, quoted, and not longer than a person wants to see."""
    quoted = repr(text)
    return quoted if len(quoted) <= _SHOWN_CHARS else quoted[:_SHOWN_CHARS] + "..."


def _read_sections(
    table: Sequence[Setting], document: object, source: str, reading: Reading
) -> None:
    if document is None:
        return
    if not isinstance(document, Mapping):
        found = shorten(str(document))
        reading.problems.append(Problem("config", source, found, "sections with settings"))
        return
    sections = {fold(row.section): row.section for row in table}
    for key, content in document.items():
        section = sections.get(fold(str(key)))
        if section is None:
            expected = nearest(str(key), sections.values())
            reading.problems.append(Problem(str(key), source, "an unknown section", expected))
        elif isinstance(content, Mapping):
            rows = [row for row in table if row.section == section]
            _read_section(rows, section, content, source, reading)
        elif content is not None:
            problem = Problem(section, source, shorten(str(content)), "a mapping of its settings")
            reading.problems.append(problem)


def _read_section(
    rows: Sequence[Setting],
    section: str,
    content: Mapping[object, object],
    source: str,
    reading: Reading,
) -> None:
    known = {fold(row.name): row for row in rows}
    for key, raw in content.items():
        row = known.get(fold(str(key)))
        if row is not None:
            reading.add(Given(row, raw, source))
        else:
            expected = nearest(str(key), [row.name for row in rows])
            problem = Problem(f"{section}.{key}", source, "an unknown name", expected)
            reading.problems.append(problem)


def _known_flags(table: Sequence[Setting]) -> dict[str, Given]:
    """What each flag stands for: a setting, and the value that is meant when none follows."""
    known = {}
    for row in table:
        switch = isinstance(row.kind, Switch)
        known[row.flag] = Given(row, "true" if switch else None, "")
        if switch:
            known["--no-" + row.flag.removeprefix("--")] = Given(row, "false", "")
        if row.port_flag is not None:
            known[row.port_flag] = Given(row, None, "", port_only=True)
    return known


def _implied(given: Given) -> bool:
    return given.raw is not None


def _split(arguments: Sequence[str], alone: set[str]) -> Iterator[tuple[str, str | None]]:
    """Names and their values; a name in `alone` does not take the argument after it."""
    place = 0
    while place < len(arguments):
        name, separator, value = arguments[place].partition("=")
        place += 1
        follows = place < len(arguments) and not arguments[place].startswith("--")
        if separator:
            yield name, value
        elif name.startswith("--") and name not in alone and follows:
            yield name, arguments[place]
            place += 1
        else:
            yield name, None
