"""The reference page of Kafka's settings: what is obeyed, what has no effect, what is refused.

`python -m goqueue.protocols.kafka.configs.reference > docs/reference/kafka-settings.md`; a test
holds the page to it, and another one holds the tables to the names that Kafka has.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from goqueue.configs.absent_settings import ABSENT, ABSENT_OF_GROUPS
from goqueue.configs.broker_setting_table import BROKER_SETTINGS
from goqueue.configs.coordinated_setting_table import COORDINATED_SETTINGS
from goqueue.protocols.kafka.configs.share_settings import SHARE_SETTINGS
from goqueue.queues.delivery.settings import NEW_SHARE_GROUP
from goqueue.topics.setting import LONG_MAX, Effect, Setting
from goqueue.topics.setting_table import OWN_SETTINGS, SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_INTRODUCTION: Final = """\
# Kafka's settings

Every setting of Apache Kafka 4.3 for topics, for the broker and for groups, and what becomes of it
here; made from the broker's own declarations. To read and to change them, use Kafka's own tools:

<!-- not run: needs the scripts of Apache Kafka; tests/protocol sends the same requests -->

```sh
kafka-configs.sh --bootstrap-server localhost:9092 --topic orders --describe --all
kafka-configs.sh --bootstrap-server localhost:9092 --topic orders \\
    --alter --add-config retention.ms=60000
kafka-configs.sh --bootstrap-server localhost:9092 --entity-type brokers --entity-default \\
    --alter --add-config log.retention.ms=60000
```

- *obeyed*: it has the effect that it has in Kafka, unless the last column says otherwise.
- *no effect*: it is checked, stored and shown, and changes nothing; the last column says why.
- *refused*: a change is answered with an error.

A name that is not in these tables is refused with `INVALID_CONFIG`, for topics, for groups and for
the broker; Kafka stores an unknown name of the broker for its plug-ins. A wrong value is refused
with `INVALID_CONFIG`, one of the broker with `INVALID_REQUEST`, as in Kafka; the message names the
setting, the value and what was expected.

## Topics
"""

_OWN: Final = """\
## Topics, beyond Kafka

These settings Kafka does not have.
"""

_BROKER: Final = """\
## The broker

A setting that is *dynamic* can be changed while the broker runs, for the node by its number or for
the cluster by the empty name. What was set for the node counts more than what was set for the
cluster, that more than the server's [configuration](configuration.md), and that more than the
default. Changes are stored, hold at once and after a restart. Where a topic setting is named, the
broker's value is the default for topics that do not say otherwise; the broker's internal topics
keep to the configuration.

The others are shown as read-only. They are given when the server starts, and a change is refused
with `INVALID_REQUEST`: "Cannot update these configs dynamically".
"""

_ABSENT: Final = """\
### What the broker does not have

Settings of Kafka's brokers whose names begin so are not shown. A change is refused as one of a
read-only setting.

| names | why |
| --- | --- |\
"""

_GROUPS: Final = """\
## Groups

Settings of a group (resource type `GROUP`) may be given before there is such a group. `consumer.*`
are for consumer groups of the newer protocol (KIP-848) and `streams.*` for Streams groups
(KIP-1071). Members follow them with their next heartbeat. The broker bounds them: `group.consumer.`
and `group.streams.` with `min.` and `max.`. `share.*` are for share groups
([Kafka clients](../how-to/kafka.md)).
"""

_UNBOUNDED: Final = "no bound"
_COLUMNS: Final = "| setting | type | default | values | | |\n| --- | --- | --- | --- | --- | --- |"


def reference() -> str:
    """The whole page."""
    kafka = (each for name, each in SETTINGS.items() if name not in OWN_SETTINGS)
    own = (each for name, each in SETTINGS.items() if name in OWN_SETTINGS)
    return "\n".join(
        [
            _INTRODUCTION,
            *_table(kafka),
            "",
            _OWN,
            *_table(own),
            "",
            _BROKER,
            *_broker_rows(),
            "",
            _ABSENT,
            *_absent_rows(),
            "",
            _GROUPS,
            *_group_rows(),
            "",
        ]
    )


def _table(settings: Iterable[Setting]) -> Iterator[str]:
    yield _COLUMNS
    for each in sorted(settings, key=lambda each: each.name):
        yield _row(each.name, each.kind, each.default, each.expected, each.effect, each.note)


def _row(*cells: str) -> str:
    name, kind, default, *others = cells
    shown = f"`{default}`" if default else ""
    if default == str(LONG_MAX):
        shown = _UNBOUNDED
    return f"| {' | '.join((f'`{name}`', kind, shown, *others))} |"


def _broker_rows() -> Iterator[str]:
    yield "| setting | type | default | | topic setting | | |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for each in BROKER_SETTINGS.values():
        setting = each.setting
        change = "dynamic" if each.is_dynamic else "read-only"
        topic = f"`{each.topic}`" if each.topic is not None else ""
        effect = Effect.OBEYED if not each.is_dynamic else setting.effect
        yield _row(each.name, setting.kind, setting.default, change, topic, effect, setting.note)


def _absent_rows() -> Iterator[str]:
    for beginnings, reason in ABSENT:
        names = ", ".join(f"`{name}*`" if name[-1] == "." else f"`{name}`" for name in beginnings)
        yield f"| {names} | {reason} |"


def _group_rows() -> Iterator[str]:
    yield "| setting | type | default | | |"
    yield "| --- | --- | --- | --- | --- |"
    rows = {
        each.name: _row(each.name, each.kind, each.default, each.effect, each.note)
        for each in (row.setting for row in COORDINATED_SETTINGS.values())
    }
    for each in SHARE_SETTINGS.values():
        default = each.text(NEW_SHARE_GROUP)
        rows[each.name] = _row(each.name, each.kind, default, Effect.OBEYED, each.documentation)
    for name, reason in ABSENT_OF_GROUPS.items():
        rows.setdefault(name, _row(name, "", "", "refused", reason))
    yield from (row for _, row in sorted(rows.items()))


if __name__ == "__main__":
    sys.stdout.write(reference())
