"""The audit log of a node, and its copy in a topic, where they are wanted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from goqueue.audit.log import NO_AUDIT
from goqueue.metrics import security_names as names
from goqueue.model.internal_topics import AUDIT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.audit.log import AuditLog
    from goqueue.broker.broker import Broker
    from goqueue.metrics.registry import Samples
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Disk
    from goqueue.server.config import Config

    Started = Callable[[str, Callable[[], Awaitable[None]], float], None]

AUDIT_FOLDER: Final = "audit"
"""In the data folder."""
_STOP_S: Final = 10.0


async def start_audit(config: Config, disk: Disk, clock: Clock, started: Started) -> AuditLog:
    """The audit log that the configuration asks for, started.

    Raises:
        DiskError: it cannot be opened.
    """
    if not config.audits:
        return NO_AUDIT
    from goqueue.audit.writer import WrittenAuditLog  # noqa: PLC0415 - most servers have none

    said = config.audit
    audit = WrittenAuditLog(
        disk,
        said.folder or config.broker.data_dir / AUDIT_FOLDER,
        clock,
        config.broker.node_id,
        said.limits,
        echo=said.stderr,
    )
    await audit.start()
    started("audit log", audit.stop, _STOP_S)
    return audit


def copy_audit(config: Config, broker: Broker, started: Started) -> None:
    """Measure the audit log, and publish its events where that is wanted."""
    audit = broker.audit
    if not audit.is_on:
        broker.metrics.add_source(_put_off)
        return
    broker.metrics.add_source(audit.put)
    if not config.audit.topic:
        return
    from goqueue.audit.topic_copy import TopicCopy  # noqa: PLC0415 - few servers want it

    create = partial(broker.create_internal_topic, AUDIT, 1)
    copy = TopicCopy(broker.targets, create, broker.clock, config.broker.node_id)
    audit.on_written = copy.written
    broker.metrics.add_source(copy.put)
    started("audit topic", copy.stop, _STOP_S)


def _put_off(samples: Samples) -> None:
    """An audit log that is off does not fail: alerts find its series."""
    samples.put(names.AUDIT_FAILED, 0)
