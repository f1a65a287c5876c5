"""What logins and rights cost: producing against an open broker, and others while many log in."""

from __future__ import annotations

import base64
import json
import os
import ssl
import urllib.request
from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks._brokers import HOST, BrokerProcess, http_port, start_goqueue
from benchmarks._client import ClientProcess
from benchmarks._turns import Turns, expect
from benchmarks.harness import Run, benchmark

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

OFF: Final = "off"
ON: Final = "on"
TOPIC: Final = "orders"
ADMIN: Final = "admin"
WRITER: Final = "writer"
PRODUCED: Final = 1_000_000
RULES: Final = 1000
TURNS: Final = int(os.environ.get("GOQUEUE_BENCH_SECURITY_TURNS", "9"))
LOGINS_PER_MINUTE: Final = 2000
ONE_USER: Final = "logins of one user"
MANY_USERS: Final = "first logins of many"
USERS: Final = 240
"""More than log in within a turn."""
LATENCY_S: Final = 6.0
LATENCY_TURNS: Final = 5
NOISY, CALM = "noisy", "calm"
FLOODS: Final = 3
"""Producers of the noisy tenant, each with connections of its own."""
CROWD: Final = 100
READERS: Final = 10
"""Connections of the noisy tenant that publish little at a time, and that fetch."""
NEIGHBOUR_S: Final = 3.0
NEIGHBOUR_TURNS: Final = 5
MOST: Final = 3.0
"""Times its own p99 that a tenant may have beside a noisy one."""
PACE: Final = 100
"""Messages a second of the calm tenant."""
_RATES: Final = (
    "publish_messages_per_s",
    "consume_messages_per_s",
    "publish_bytes_per_s",
    "consume_bytes_per_s",
    "requests_per_s",
    "max_storage_bytes",
)
_NO_LIMITS: Final = dict.fromkeys(_RATES, 0)
_NEVER_REACHED: Final = dict.fromkeys(_RATES, 10**12)


def _guarded(
    run: Run, *others: str, flags: Sequence[str] = (), folder: Path | None = None
) -> BrokerProcess:
    """A broker that asks everybody who they are. A password is the name, twice."""
    users = "".join(f"    {name}: {name * 2}\n" for name in (ADMIN, WRITER, *others))
    config = run.scratch / "goqueue.yaml"  # a flag would show them in the list of processes
    config.write_text(f"sasl:\n  users:\n{users}", encoding="utf-8")
    config.chmod(0o600)
    return start_goqueue(
        folder or run.scratch / ON,
        f"--config={config}",
        "--auth-enabled",
        f"--auth-super-users={ADMIN}",
        *flags,
    )


@benchmark("produce", "librdkafka with a SCRAM login and 1,000 rules, against an open broker")
def produce(run: Run) -> None:
    with (
        start_goqueue(run.scratch / OFF) as open_broker,
        _guarded(run) as guarded,
        ClientProcess("_security_client") as client,
    ):
        client.call("make", address=guarded.address, user=ADMIN, topic=TOPIC)
        made = client.call(
            "make_rules",
            address=guarded.address,
            user=ADMIN,
            writer=WRITER,
            topic=TOPIC,
            count=RULES,
        )
        expect(made == RULES, f"{made} rules")
        _compare(run, client, "logins and rights", open_broker, (guarded, WRITER))
    run.note(f"{TURNS} turns of {PRODUCED} messages, {RULES} rules, SCRAM-SHA-256, acks=all")


@benchmark("quotas", "librdkafka of a tenant with every quota, none of them reached, against none")
def quotas(run: Run) -> None:
    with (
        start_goqueue(run.scratch / OFF) as open_broker,
        _guarded(run, flags=("--tenancy-enabled",)) as guarded,
        ClientProcess("_security_client") as client,
    ):
        _make_tenant(guarded, CALM, _NEVER_REACHED)
        client.call("make", address=guarded.address, user=CALM, topic=TOPIC)
        _compare(run, client, "quotas", open_broker, (guarded, CALM))
    run.note(f"{TURNS} turns of {PRODUCED} messages; every quota that is a rate, SCRAM-SHA-256")


def _compare(
    run: Run,
    client: ClientProcess,
    what: str,
    open_broker: BrokerProcess,
    guarded: tuple[BrokerProcess, str],
) -> None:
    """Produce in turns to an open broker, and as a user of another one that has the topic."""
    turns = Turns(plain=OFF)
    used_s = {OFF: 0.0, ON: 0.0}
    ways: dict[str, tuple[BrokerProcess, str | None]] = {OFF: (open_broker, None), ON: guarded}
    client.call("make", address=open_broker.address, user=None, topic=TOPIC)
    for turn in run.progress(TURNS + 1, what):
        for way in (OFF, ON) if turn % 2 else (ON, OFF):
            broker, user = ways[way]
            before_s = broker.cpu_s()
            sent = client.call(
                "produce", address=broker.address, user=user, topic=TOPIC, count=PRODUCED
            )
            expect(sent["left"] == 0, f"{way}: {sent['left']} messages were left")
            if turn > 0:
                turns.add(way, sent["seconds"])
                used_s[way] += broker.cpu_s() - before_s
    turns.report_rates(run, f"messages: {what}", PRODUCED, "messages/s")
    each_us = {way: used / (PRODUCED * TURNS) * 1e6 for way, used in used_s.items()}
    label = f"broker CPU a message: {what}"
    run.row(f"{label} {OFF}", each_us[OFF], "µs")
    run.row(f"{label} {ON}", each_us[ON], "µs", each_us[ON] / each_us[OFF], f"{label} {OFF}")


@benchmark("logins", "Producers beside 2,000 logins a minute, against the same without them")
def logins(run: Run) -> None:
    crowds = {ONE_USER: [WRITER], MANY_USERS: [f"user-{number}" for number in range(USERS)]}
    p50: defaultdict[str, list[float]] = defaultdict(list)
    p99: defaultdict[str, list[float]] = defaultdict(list)
    rates: list[float] = []
    with (
        _guarded(run, *crowds[MANY_USERS]) as broker,
        ClientProcess("_security_client") as client,
        ClientProcess("_security_client") as crowd,
    ):
        client.call("make", address=broker.address, user=ADMIN, topic=TOPIC)
        asked = {"address": broker.address, "user": ADMIN, "topic": TOPIC, "seconds": LATENCY_S}
        client.call("latencies", **asked | {"seconds": 1.0})
        for turn in run.progress(LATENCY_TURNS, "logins"):
            ways = (OFF, ONE_USER, MANY_USERS)
            for way in ways if turn % 2 else reversed(ways):
                users = crowds.get(way, [])
                if users:
                    # Each of many users comes once a turn, after its password was forgotten.
                    pace = {"seconds": LATENCY_S, "per_minute": LOGINS_PER_MINUTE}
                    crowd.begin("log_in", address=broker.address, users=users, **pace)
                found = client.call("latencies", **asked)
                expect(found["left"] == 0, f"{found['left']} messages were left")
                p50[way].append(found["p50"])
                p99[way].append(found["p99"])
                if users:
                    done = crowd.end()
                    expect(done["refused"] == 0, f"{done['refused']} logins were refused")
                    rates.append(done["logins"] / done["seconds"] * 60)
                    if way == MANY_USERS:
                        client.call("add_user", address=broker.address, user=ADMIN)
    expect(median(rates) > 0.9 * LOGINS_PER_MINUTE, f"{median(rates):.0f} logins a minute")
    for rank, found_ms in (("p50", p50), ("p99", p99)):
        plain = f"{rank} of a produce without logins"
        run.row(plain, median(found_ms[OFF]), "ms")
        for way in crowds:
            pairs = zip(found_ms[way], found_ms[OFF], strict=True)
            ratio = median(on / off for on, off in pairs)
            run.row(f"{rank} of a produce beside {way}", median(found_ms[way]), "ms", ratio, plain)
    run.row("logins", median(rates), "logins/minute")
    run.note(f"{LATENCY_TURNS} turns of {LATENCY_S:g} s, PLAIN; of many users each logs in once")


def _make_tenant(
    broker: BrokerProcess, tenant: str, quotas: dict[str, int], *, tls: bool = False
) -> None:
    """A tenant, with a user of the same name who may do everything in it."""
    made = {"id": tenant, "name": tenant, "quotas": quotas}
    _call(broker, "POST", "/admin/tenants", made, tls=tls)
    user = {"password": tenant * 2, "roles": ["admin"], "tenant": tenant}
    _call(broker, "PUT", f"/admin/users/{tenant}", user, tls=tls)


def _call(
    broker: BrokerProcess, method: str, path: str, body: dict[str, Any], *, tls: bool
) -> None:
    url = f"http{'s' if tls else ''}://{HOST}:{http_port(broker)}{path}"
    request = urllib.request.Request(url, json.dumps(body).encode(), method=method)
    login = base64.b64encode(f"{ADMIN}:{ADMIN * 2}".encode()).decode()
    request.add_header("Authorization", f"Basic {login}")
    request.add_header("Content-Type", "application/json")
    unverified = ssl._create_unverified_context() if tls else None  # noqa: SLF001 - its own
    with urllib.request.urlopen(request, timeout=60, context=unverified) as answer:
        expect(answer.status < 300, f"{path}: {answer.status}")


@benchmark("neighbours", "A tenant that publishes 100/s beside one that asks for all it can")
def neighbours(run: Run) -> None:
    shapes: dict[str, tuple[str, int]] = {
        "bulk": ("flood", FLOODS),
        "100 connections with small requests": ("small_requests", CROWD),
        "fetches": ("fetches", READERS),
    }
    _beside(run, shapes, tls=False)
    _beside(run, {"bulk over TLS": ("flood", FLOODS)}, tls=True)
    run.note(f"{NEIGHBOUR_TURNS} turns of {NEIGHBOUR_S:g} s a shape, one message in flight")


def _beside(run: Run, shapes: dict[str, tuple[str, int]], *, tls: bool) -> None:
    flags = ("--tenancy-enabled", *(("--tls-enabled", "--tls-self-signed") if tls else ()))
    scratch = run.scratch / ("tls" if tls else "plain")
    with (
        _guarded(run, flags=flags, folder=scratch) as broker,
        ClientProcess("_security_client") as client,
        ClientProcess("_security_client") as crowd,
    ):
        spoken = {"tls": True} if tls else {}
        for tenant in (CALM, NOISY):
            _make_tenant(broker, tenant, _NO_LIMITS, tls=tls)
            client.call("make", address=broker.address, user=tenant, topic=TOPIC, **spoken)
        asked = {"address": broker.address, "user": CALM, "topic": TOPIC, "pace": PACE} | spoken
        client.call("latencies", **asked, seconds=1.0)
        for shape, (function, count) in shapes.items():
            flood = {"address": broker.address, "user": NOISY, "topic": TOPIC, "count": count}
            _shape(run, shape, client, asked, (crowd, function, flood | spoken))


def _shape(
    run: Run,
    shape: str,
    client: ClientProcess,
    asked: dict[str, Any],
    noise: tuple[ClientProcess, str, dict[str, Any]],
) -> None:
    """Rows for one kind of noise: what it is to the other tenant, in turns with silence."""
    crowd, function, flood = noise
    found: dict[str, dict[str, list[float]]] = {CALM: defaultdict(list), NOISY: defaultdict(list)}
    rates: list[float] = []
    for turn in run.progress(NEIGHBOUR_TURNS, shape):
        for way in (CALM, NOISY) if turn % 2 else (NOISY, CALM):
            if way == NOISY:
                crowd.begin(function, **flood, seconds=NEIGHBOUR_S + 1)
            latencies = client.call("latencies", **asked, seconds=NEIGHBOUR_S)
            expect(latencies["left"] == 0, f"{latencies['left']} messages were left")
            for rank in ("p50", "p99"):
                found[way][rank].append(latencies[rank])
            if way == NOISY:
                flooded = crowd.end()
                rates.append(flooded["count"] / flooded["seconds"])
    for rank in ("p50", "p99"):
        plain = f"{rank} alone: {shape}"
        pairs = list(zip(found[NOISY][rank], found[CALM][rank], strict=True))
        run.row(plain, median(alone for _, alone in pairs), "ms")
        ratio = median(beside / alone for beside, alone in pairs)
        run.row(
            f"{rank} beside: {shape}", median(beside for beside, _ in pairs), "ms", ratio, plain
        )
        if rank == "p99" and ratio > MOST:
            run.note(
                f"MISSED: p99 beside {shape}: {ratio:.1f} times, at most {MOST:g} is asked for"
            )
    unit = "messages/s" if function == "flood" else "requests/s"
    run.row(f"the noisy tenant: {shape}", median(rates), unit)
