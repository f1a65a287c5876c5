"""The table of settings as people read it: in force, as flags, and as the reference page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.configs.broker_configs import BrokerConfigs, Level
from goqueue.server.config import SECTIONS, TABLE, Config
from goqueue.server.config_kinds import Address, Switch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.protocols.http.api.served_node import ChangedSetting, EffectiveSetting
    from goqueue.server.config_table import Setting

_INTRODUCTION: Final = """\
# Configuration

`goqueue server` takes each setting from the first of these that has it: a flag, the environment,
the file, its default. The file is YAML, named by `--config` or `GOQUEUE_CONFIG`; no file is needed.

The setting `storage.segment_size` is `segment_size` under `storage` in the file,
`GOQUEUE_STORAGE_SEGMENT_SIZE` in the environment and `--storage-segment-size` as a flag; the tables
give the names of the few that differ. In the file and the environment neither capitals nor
underscores matter. A switch is `--name` or `--no-name` as a flag.

Everything is checked before anything opens, and all problems are reported together. A name that
does not exist is one of them, in the file as well as in the environment.

Sizes may have the unit KB, MB, GB or TB, in steps of 1024; without one they are bytes. Durations
may have ms, s, m, h or d; without one they are milliseconds. Relative paths start where the server
was started.

```yaml
broker:
  data_dir: /var/lib/goqueue
listeners:
  kafka: 0.0.0.0:9092
  kafka_advertised: broker.example.com:9092
auth:
  enabled: true
tls:
  enabled: true
  self_signed: true
storage:
  fsync: always
topics:
  retention: 3d
```
"""


class Effective(msgspec.Struct, frozen=True):
    """One setting as it is in force; a secret is masked."""

    setting: str
    value: str
    source: str


def effective(config: Config) -> list[Effective]:
    """Every setting with its value and where that came from."""
    return [Effective(row.full_name, _shown(config, row), config.source(row)) for row in TABLE]


def effective_settings(config: Config, configs: BrokerConfigs) -> list[EffectiveSetting]:
    """Every setting with where its value comes from, and what has changed at run time."""
    from goqueue.protocols.http.api.served_node import (  # noqa: PLC0415 - Kafka is served before
        EffectiveSetting,
    )

    return [
        EffectiveSetting(
            setting=row.full_name,
            value=_shown(config, row),
            source=config.source(row),
            default=row.render(row.default) if row.default not in {None, ()} else "",
            description=row.help,
            is_secret=row.secret,
            kafka_name=row.kafka,
            is_dynamic=row.kafka is not None and configs.is_dynamic(row.kafka),
            changed=None if row.kafka is None else _changed(configs, row.kafka),
        )
        for row in TABLE
    ]


def _changed(configs: BrokerConfigs, name: str) -> ChangedSetting | None:
    from goqueue.protocols.http.api.served_node import (  # noqa: PLC0415 - as above
        ChangedSetting,
    )

    for level in (Level.NODE, Level.CLUSTER):
        value = configs.overrides(level).get(name)
        if value is not None:
            return ChangedSetting(value, "node" if level is Level.NODE else "cluster")
    return None


def kafka_view(config: Config) -> dict[str, str]:
    """The settings that Kafka has too, under its names and in its units."""
    return {row.kafka: _in_kafkas_terms(config, row) for row in TABLE if row.kafka is not None}


def flag_help() -> str:
    """Every flag with its default, for the help of the command."""
    lines = ["  --config PATH", "      The configuration file, in YAML."]
    for row in TABLE:
        if row.secret:
            continue
        lines.append(f"  {', '.join(_flags(row))}")
        default = f" [default: {row.render(row.default)}]" if row.default not in {None, ()} else ""
        lines.append(f"      {row.help}{default}")
    return "\n".join(lines)


def reference() -> str:
    """The text of `docs/reference/configuration.md`."""
    return "\n".join([_INTRODUCTION, *_sections()])


def _sections() -> Iterator[str]:
    for section, kind in SECTIONS.items():
        yield f"## {section}\n\n{kind.__doc__}\n"
        yield "| setting | default | meaning | flag, environment |"
        yield "| --- | --- | --- | --- |"
        for row in TABLE:
            if row.section == section:
                default = f"`{row.render(row.default)}`" if row.default not in {None, ()} else ""
                names = ", ".join(f"`{name}`" for name in [*_flags(row), row.environment])
                kafka = f" Kafka: `{row.kafka}`." if row.kafka else ""
                meaning = f"{row.help} Expected: {row.kind.expected}.{kafka}"
                yield f"| `{row.name}` | {default} | {meaning} | {names} |"
        yield ""


def _flags(row: Setting) -> list[str]:
    if row.secret:
        return []  # everybody can list the flags of a process
    names = [row.flag]
    if row.port_flag is not None:
        names.insert(0, f"{row.port_flag} PORT")
    if isinstance(row.kind, Switch):
        names.append("--no-" + row.flag.removeprefix("--"))
    return names


def _shown(config: Config, row: Setting) -> str:
    return row.show(row.render(config.value(row)))


def _in_kafkas_terms(config: Config, row: Setting) -> str:
    value = config.value(row)
    if row.kafka_unit != 1:
        value //= row.kafka_unit
    if isinstance(value, Address):
        spoken = "SSL" if config.tls.enabled else "PLAINTEXT"
        return f"{'SASL_' if config.asks_kafka_clients else ''}{spoken}://{value}"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return row.render(value)


if __name__ == "__main__":
    import sys

    sys.stdout.write(reference())
