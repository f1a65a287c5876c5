"""What somebody should look at, the most urgent first: rules over what is known anyway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from urllib.parse import quote

from goqueue.partitions.damage import DamageKind
from goqueue.pipelines.service import FAILED, LOST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goqueue.broker.broker import Broker
    from goqueue.insight.group_views import GroupLine
    from goqueue.insight.history import GroupLines, Lately
    from goqueue.insight.overview import Inventory
    from goqueue.partitions.health import HealthReport

Severity: TypeAlias = Literal["critical", "warning", "info"]

_MAX_SHOWN: Final = 20
"""Further ones are counted in one last line."""
_OF_A_KIND: Final = 5
"""Lines about the same trouble in several places; the rest of them is one line."""
_ORDER: Final = {"critical": 0, "warning": 1, "info": 2}
_DISK_TIGHT: Final = 0.85
_FILES_TIGHT: Final = 0.9
_LOOP_LATE_S: Final = 0.5
_SLOW_MS: Final = 50.0
_VERY_SLOW_MS: Final = 100.0
_LONG_TRANSACTION_MS: Final = 60_000
_MUCH_LAG: Final = 10_000
_STEPS: Final = 12
"""Points of a group's history, a minute, over which it is judged."""
_STORM_PER_S: Final = 1.0
_ERROR_SHOWN: Final = 200
_DAMAGE: Final = {
    DamageKind.RECORDS: "stored records are damaged",
    DamageKind.UNDECODABLE: "records do not decode",
    DamageKind.SNAPSHOT: "a snapshot is damaged",
    DamageKind.STATE: "an entry of the broker's state is damaged",
    DamageKind.DELAY_SLOT: "a slot of delayed messages was damaged and is rebuilt",
}


@dataclass(frozen=True, slots=True)
class Attention:
    """One thing to look at, and the page of the console that shows it."""

    severity: Severity
    title: str
    detail: str
    link: str


def attention(
    broker: Broker, inventory: Inventory, lately: Lately, health: HealthReport | None
) -> list[Attention]:
    """Everything that needs somebody, the most urgent first."""
    found: list[Attention] = []
    for rule in (
        _exposed(broker),
        _failed(inventory),
        _clock(broker),
        damage_found(broker),
        _disk(broker, health),
        _pipelines(broker),
        _groups(broker, inventory),
        _latency(lately),
        _dead_letters(inventory),
        _retries(lately),
        _transactions(broker, inventory),
        _process(health),
    ):
        found += _few(list(rule))
    return most_urgent(found)


def most_urgent(lines: Iterable[Attention]) -> list[Attention]:
    """As many as are shown, the most urgent first."""
    found = sorted(lines, key=lambda each: _ORDER[each.severity])
    if len(found) > _MAX_SHOWN:
        rest = len(found) - _MAX_SHOWN + 1
        found[_MAX_SHOWN - 1 :] = [
            Attention("info", f"And {rest} more", "See the other pages.", "/console")
        ]
    return found


def _few(lines: list[Attention]) -> list[Attention]:
    if len(lines) <= _OF_A_KIND:
        return lines
    rest = lines[_OF_A_KIND - 1 :]
    page = rest[0].link.rpartition("/")[0]
    more = Attention(rest[0].severity, f"And {len(rest)} more like that", rest[0].title, page)
    return [*lines[: _OF_A_KIND - 1], more]


def _page(kind: str, name: str) -> str:
    return f"/console/{kind}/{quote(name, safe='')}"


def _exposed(broker: Broker) -> Iterator[Attention]:
    if (open_to := broker.settings.exposed) is not None:
        yield Attention(
            "critical",
            "The server runs with --insecure",
            f"{_sentence(open_to)}.",
            "/console",
        )
    if (failure := broker.audit.failure) is not None:
        yield Attention("critical", "The audit log cannot be written", failure, "/console")
    for title, reason in broker.troubles.items():
        if (why := reason()) is not None:
            yield Attention("warning", title, why, "/console")


def _failed(inventory: Inventory) -> Iterator[Attention]:
    for name, why in inventory.failed:
        topic = name.rpartition("-")[0] or name
        yield Attention("critical", f"{name} refuses appends", why, _page("topics", topic))


def _clock(broker: Broker) -> Iterator[Attention]:
    if (stopped := broker.clock_guard.stopped()) is not None:
        title, _, detail = stopped.partition(": ")
        yield Attention("critical", _sentence(title), _sentence(detail), "/console")


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


_LOST: Final = {DamageKind.RECORDS, DamageKind.STATE}
"""What cannot be had from elsewhere."""


def damage_found(broker: Broker) -> Iterator[Attention]:
    """Stored data that turned out to be damaged since the start."""
    for report in broker.damage:
        yield Attention(
            "critical" if report.kind in _LOST else "warning",
            f"{report.place}: {_DAMAGE[report.kind]}",
            _brief(report.detail),
            _page("topics", report.topic) if report.topic else "/console",
        )


def _disk(broker: Broker, health: HealthReport | None) -> Iterator[Attention]:
    if broker.publisher.disk_full:
        yield Attention("critical", "The disk is full", str(broker.publisher.disk_full), "/console")
    elif health is not None and health.disk.total_bytes:
        share = 1 - health.disk.free_bytes / health.disk.total_bytes
        if share >= _DISK_TIGHT:
            free_gb = health.disk.free_bytes / 1e9
            yield Attention(
                "warning",
                f"The disk is {share:.0%} full",
                f"{free_gb:.1f} GB are left; publishing is refused when it is full.",
                "/console",
            )


def _pipelines(broker: Broker) -> Iterator[Attention]:
    for report in broker.pipelines.all():
        link = _page("pipelines", report.name)
        if report.state == LOST:
            yield Attention(
                "critical",
                f"Pipeline {report.name} is lost",
                f"It should run on {report.host or 'its host'}, and does not report.",
                link,
            )
        elif report.state == FAILED:
            yield Attention(
                "critical",
                f"Pipeline {report.name} has failed",
                _brief(report.error),
                link,
            )
        else:
            for query in report.queries:
                if query.state == FAILED:
                    yield Attention(
                        "critical",
                        f"Query {query.name} of pipeline {report.name} has failed",
                        _brief(query.error),
                        link,
                    )


def _brief(error: str | None) -> str:
    """The first lines of an error: a stack trace is on the page that the line leads to."""
    said = " ".join((error or "").split()) or "No reason was reported."
    return said if len(said) <= _ERROR_SHOWN else f"{said[:_ERROR_SHOWN]}…"


def _groups(broker: Broker, inventory: Inventory) -> Iterator[Attention]:
    for group in inventory.groups:
        lines = broker.history.group(group.group_id)
        if lines is not None and (trouble := _trouble(group, lines)) is not None:
            severity, title, detail = trouble
            yield Attention(severity, title, detail, _page("groups", group.group_id))


def _trouble(group: GroupLine, lines: GroupLines) -> tuple[Severity, str, str] | None:
    # What counts from the log start for want of a commit is an upper bound, and no reason to worry.
    both = zip(lines.lag.newest(_STEPS), lines.uncommitted.newest(_STEPS), strict=True)
    lags = [(lag or 0) - (uncommitted or 0) for lag, uncommitted in both]
    if not lags or not lags[-1]:
        return None
    name, lag = group.group_id, int(lags[-1])
    waited = len(lags) >= _STEPS
    commits = sum(each or 0 for each in lines.committed.newest(_STEPS))
    left = "Lag: 1 message" if lag == 1 else f"Lag: {lag:,} messages"
    if not group.member_count:
        if waited and lags[-1] > lags[0]:
            grown = int(lags[-1] - lags[0])
            return (
                "warning",
                f"Group {name} has no members",
                f"{left}, growing by {grown:,} in a minute.",
            )
        return None
    if waited and not commits and min(lags) > 0:
        count = group.member_count
        members = "1 member" if count == 1 else f"{count} members"
        detail = f"{left}, {members}, and no commit or acknowledgement in a minute."
        return "critical", f"Group {name} is stuck", detail
    if waited and lag > _MUCH_LAG and lags[-1] > lags[0]:
        return "warning", f"Group {name} has a growing lag", f"{left}."
    return None


def _latency(lately: Lately) -> Iterator[Attention]:
    p99 = lately.publish.p99
    if p99 is not None and p99 > _SLOW_MS:
        yield Attention(
            "critical" if p99 > _VERY_SLOW_MS else "warning",
            "Publishing is slow",
            f"The 99th percentile of the last minute is {p99:.0f} ms.",
            "/console",
        )


def _dead_letters(inventory: Inventory) -> Iterator[Attention]:
    for each in inventory.new_letters:
        letters = "1 dead letter" if each.count == 1 else f"{each.count} dead letters"
        if each.source is not None:
            yield Attention(
                "warning",
                f"{letters} of {each.source}",
                "In the last hour: check the reasons, then redrive or purge them.",
                _page("dead-letters", each.source),
            )
        else:
            yield Attention(
                "warning",
                f"{letters} of pipeline {each.pipeline}",
                f"In the last hour, in topic {each.topic}: check the reasons.",
                _page("topics", each.topic),
            )


def _retries(lately: Lately) -> Iterator[Attention]:
    nacked, acked = lately.nacked_per_s, lately.acked_per_s
    if nacked >= _STORM_PER_S and nacked > acked:
        yield Attention(
            "warning",
            "More messages are nacked than acknowledged",
            f"{nacked:.1f} per second were nacked in the last minute, {acked:.1f} acknowledged.",
            "/console/queues",
        )


def _transactions(broker: Broker, inventory: Inventory) -> Iterator[Attention]:
    now_ms = broker.transactions.now_ms()
    aged = [
        (now_ms - each.started_ms, each.transactional_id)
        for each in inventory.open_transactions
        if each.started_ms >= 0
    ]
    for age_ms, name in sorted(aged, reverse=True):
        if age_ms < _LONG_TRANSACTION_MS:
            break
        yield Attention(
            "warning",
            f"The transaction of {name} is open for {age_ms // 1000} s",
            "read_committed consumers wait for it.",
            "/console/transactions",
        )


def _process(health: HealthReport | None) -> Iterator[Attention]:
    if health is None:
        return
    if health.loop_lag_s >= _LOOP_LATE_S:
        yield Attention(
            "warning",
            f"The event loop was blocked for {health.loop_lag_s:.1f} s",
            "In the last minute, by its own work or by a busy machine.",
            "/console",
        )
    used, most = health.process.open_files, health.process.max_open_files
    if used is not None and most and used >= _FILES_TIGHT * most:
        yield Attention(
            "warning",
            "The limit of open files is almost reached",
            f"{used} of {most} are open: raise the limit (ulimit -n).",
            "/console",
        )
