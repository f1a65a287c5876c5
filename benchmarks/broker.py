"""The broker under librdkafka, against one that parses, checks, writes, acknowledges, and no more.

Broker, yardstick and clients are processes of their own on the same machine. Linux only: what a
process uses is read from /proc.
"""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks._brokers import GOQUEUE, NULL, PARTITIONS, free_port, start_goqueue
from benchmarks._checkouts import with_bytecode
from benchmarks._client import ClientProcess
from benchmarks._latency import (
    PACED_TURNS,
    Pace,
    end_to_end_latency,
    highest_followed_rate,
    highest_rate,
    publish_latency,
)
from benchmarks._logs import KB, MB, batch_of
from benchmarks._pairs import Pair, both, in_turn, send
from benchmarks._profiled import report_profile, start_profiling
from benchmarks._raw_client import first_acknowledged
from benchmarks._turns import Turns, expect
from benchmarks.harness import ROOT, Run, benchmark, timed

if TYPE_CHECKING:
    from benchmarks._brokers import BrokerProcess, Memory

KAFKA: Final = "_kafka_client"
RAW: Final = "_raw_client"
MICROSECONDS: Final = 1e6
SETTINGS: Final = (
    f"100-byte messages, {PARTITIONS} partitions, acks=all, linger.ms=5, batch.size=1 MB, "
    "batch.num.messages=10000, no compression; goqueue with its defaults (fsync=interval)"
)


# --- Throughput --------------------------------------------------------------------------------

PRODUCED: Final = 500_000
PRODUCE_TURNS: Final = 10
WARM_UP: Final = 100_000


@benchmark("produce", "librdkafka produces 100-byte messages with acks=all, against a null broker")
def produce(run: Run) -> None:
    with both(run) as brokers, ClientProcess(KAFKA) as client:
        _produce(run, client, brokers, "a report for each message", reports=True)
        _produce(run, client, brokers, "reports of failures only", reports=False)
    run.note(SETTINGS)
    run.note(f"{PRODUCE_TURNS} turns of {PRODUCED} messages; both cores are shared with the client")
    run.note("the end offsets of each log were equal to what had been acknowledged")


def _produce(
    run: Run,
    client: ClientProcess,
    brokers: Pair,
    name: str,
    *,
    reports: bool,
) -> None:
    turns, topic = Turns(plain=NULL), f"produce-{reports}".lower()
    used_s = dict.fromkeys((NULL, GOQUEUE), 0.0)
    client_s = 0.0
    for broker in brokers:
        send(client, broker, topic, WARM_UP, reports=reports)
    for turn in run.progress(PRODUCE_TURNS, f"produce, {name}"):
        for broker in in_turn(brokers, turn):
            before_s = broker.cpu_s()
            sent = send(client, broker, topic, PRODUCED, reports=reports)
            used_s[broker.name] += broker.cpu_s() - before_s
            client_s += sent["cpu_s"]
            turns.add(broker.name, sent["seconds"])
    total = WARM_UP + PRODUCE_TURNS * PRODUCED
    for broker in brokers:
        stored = sum(client.call("ends", address=broker.address, topic=topic))
        expect(stored == total, f"{broker.name} acknowledged {total} and stored {stored} messages")
    turns.report_rates(run, f"{name}:", PRODUCED, "messages/s")
    messages = PRODUCE_TURNS * PRODUCED
    plain, label = used_s[NULL] / messages * MICROSECONDS, f"{name}: CPU a message,"
    run.row(f"{label} client", client_s / messages / 2 * MICROSECONDS, "µs")
    run.row(f"{label} {NULL}", plain, "µs")
    ours = used_s[GOQUEUE] / messages * MICROSECONDS
    run.row(f"{label} {GOQUEUE}", ours, "µs", ours / plain, f"{label} {NULL}")


class Batches(NamedTuple):
    """What is sent in `saturated`."""

    name: str
    size_bytes: int
    idempotent: bool = False


BATCHES: Final = (
    Batches("1 KB", KB),
    Batches("1 KB, idempotent", KB, idempotent=True),
    Batches("16 KB", 16 * KB),
    Batches("16 KB, idempotent", 16 * KB, idempotent=True),
    Batches("64 KB", 64 * KB),
)
SATURATED_TURNS: Final = 6
SATURATED_S: Final = 0.4
SENDERS: Final = 16


@benchmark("saturated", "Batches that cost the client nothing, as many as the broker can take")
def saturated(run: Run) -> None:
    with both(run) as brokers, ClientProcess(RAW) as client:
        for broker in brokers:
            first_acknowledged(broker.port, "ready", batch_of(KB))
        for batches in BATCHES:
            _saturate(run, client, brokers, batches)
    run.note(f"{SENDERS} connections, one batch under way on each, {SATURATED_TURNS} turns")
    run.note("a CPU second: of the broker's processor time, whatever else the machine does")


def _saturate(run: Run, client: ClientProcess, brokers: Pair, batches: Batches) -> None:
    rates, costs = Turns(plain=NULL), Turns(plain=NULL)
    for turn in run.progress(SATURATED_TURNS, f"batches of {batches.name}"):
        for broker in in_turn(brokers, turn):
            before_s = broker.cpu_s()
            done = client.call(
                "publish",
                port=broker.port,
                topic="ready",
                count=SENDERS,
                batch_bytes=batches.size_bytes,
                seconds=SATURATED_S,
                idempotent=batches.idempotent,
            )
            expect(not done["failed"], f"{broker.name}: {done}")
            rates.add(broker.name, 1 / done["batches_a_second"])
            costs.add(broker.name, (broker.cpu_s() - before_s) / done["acknowledged"])
    rates.report_rates(run, f"batches of {batches.name}:", 1, "batches/s")
    costs.report_rates(run, f"batches of {batches.name}:", 1, "batches/CPU s")


CONSUMED: Final = 1_000_000
CONSUME_TURNS: Final = 7
CACHED: Final = f"{NULL}, cached"
GOAL: Final = 1_000_000


@benchmark("consume", "librdkafka consumes a topic from the disk, against a null broker's file")
def consume(run: Run) -> None:
    turns, stayed = Turns(plain=CACHED), []
    topic, used_s = "consume", dict.fromkeys((NULL, GOQUEUE), 0.0)
    with both(run) as brokers, ClientProcess(KAFKA) as client:
        for broker in brokers:
            send(client, broker, topic, CONSUMED, reports=False)
        for turn in run.progress(CONSUME_TURNS, "consume"):
            for broker in in_turn(brokers, turn):
                broker.make_warm()
                read = _read(client, broker, topic)
                turns.add(f"{broker.name}, cached", read["seconds"])
                stayed.append(broker.make_cold())
                before_s = broker.cpu_s()
                read = _read(client, broker, topic)
                used_s[broker.name] += broker.cpu_s() - before_s
                turns.add(f"{broker.name}, cold", read["seconds"])
    turns.report_rates(run, "consume(10000),", CONSUMED, "messages/s")
    messages = CONSUME_TURNS * CONSUMED
    plain, ours = (used_s[name] / messages * MICROSECONDS for name in (NULL, GOQUEUE))
    run.row(f"CPU a message, {NULL}, cold", plain, "µs")
    run.row(f"CPU a message, {GOQUEUE}, cold", ours, "µs", ours / plain, f"CPU of the {NULL}")
    limit, cold = (CONSUMED / turns.seconds(way) for way in (CACHED, f"{GOQUEUE}, cold"))
    bound = f"the client's own limit here, {limit:,.0f}/s," if limit < GOAL else f"{GOAL:,}/s"
    run.note(f"the goal is {bound} and goqueue cold reaches {cold / min(limit, GOAL):.2f} of it")
    run.note(f"cold: fdatasync and POSIX_FADV_DONTNEED; {max(stayed):.1%} of the pages stayed")
    run.note(f"{CONSUME_TURNS} turns of {CONSUMED} messages; the yardstick sends files unchecked")


def _read(client: ClientProcess, broker: BrokerProcess, topic: str) -> dict[str, Any]:
    starts = [0] * PARTITIONS
    read: dict[str, Any] = client.call(
        "consume", address=broker.address, topic=topic, starts=starts, count=CONSUMED
    )
    expect(read["read"] == CONSUMED and not read["wrong"], f"{broker.name}: {read}")
    return read


# --- Latency -----------------------------------------------------------------------------------

LOW_RATE: Final = 1000.0


@benchmark("latency", "From publish to acknowledgement and to the consumer, against a null broker")
def latency(run: Run) -> None:
    with both(run) as brokers, ClientProcess(KAFKA) as sender, ClientProcess(KAFKA) as reader:
        clients = (sender, reader)
        half = highest_rate(run, sender, brokers[1]) / 2
        publish_latency(run, sender, brokers, Pace(half, 5))
        publish_latency(run, sender, brokers, Pace(LOW_RATE, 0))
        half = highest_followed_rate(run, clients, brokers[1]) / 2
        end_to_end_latency(run, clients, brokers, Pace(half, 5))
        end_to_end_latency(run, clients, brokers, Pace(LOW_RATE, 0))
    run.note(f"{PACED_TURNS} turns; each figure is the median of the turns'")
    run.note("measured from when a message was due, on one clock; linger.ms is part of it")


# --- Starting ----------------------------------------------------------------------------------

STARTS: Final = 9
SETTLED_S: Final = 1.0


@benchmark("start", "From spawning goqueue server on an empty folder to the first acknowledgement")
def start(run: Run) -> None:
    with_bytecode(ROOT)  # as pip leaves a package
    bare, ready, acknowledged, memory = [], [], [], []
    batch = batch_of(KB)
    for number in run.progress(STARTS, "start"):
        with timed() as watch:
            subprocess.run([sys.executable, "-c", "pass"], check=True)
        bare.append(watch.seconds)
        port = free_port()
        server = start_goqueue(run.scratch / f"data-{number}", port=port)
        acknowledged.append(first_acknowledged(port, "first", batch) - server.spawned_at)
        expect(server.port == port, "it listens elsewhere")
        ready.append(server.ready_at - server.spawned_at)
        if number == 0:
            time.sleep(SETTLED_S)
        memory.append(server.memory())
        server.stop()
    plain = "python -c pass"
    run.row(plain, median(bare) * 1000, "ms")
    for label, taken in (("ready line", ready), ("first acknowledged message", acknowledged)):
        ratio = median(ours / of_python for ours, of_python in zip(taken, bare, strict=True))
        run.row(f"to the {label}", median(taken) * 1000, "ms", ratio, plain)
    run.row("to the first acknowledged message, slowest", max(acknowledged) * 1000, "ms")
    run.row("memory when idle", median(each.rss_bytes for each in memory) / MB, "MB")
    run.row("memory when idle, own", median(each.own_bytes for each in memory) / MB, "MB")
    run.note(f"{STARTS} starts, medians; the first message also makes its topic")
    run.note("own: without the pages of files, such as libraries, that the kernel can take back")


# --- Memory ------------------------------------------------------------------------------------

PASSED: Final = 10_000_000
PIECE: Final = 1_000_000


@benchmark("memory", "What goqueue server holds while 10 million messages pass through it")
def memory(run: Run) -> None:
    topic, held, peaks = "through", [], []
    with (
        start_goqueue(run.scratch / "data") as server,
        ClientProcess(KAFKA) as sender,
        ClientProcess(KAFKA) as reader,
    ):
        time.sleep(SETTLED_S)
        idle = server.memory()
        where = {"address": server.address, "topic": topic}
        starts = sender.call("ends", **where)
        with timed() as watch:
            for _ in run.progress(PASSED // PIECE, "10 million messages"):
                server.forget_peak()
                reader.begin("consume", starts=starts, count=PIECE, **where)
                send(sender, server, topic, PIECE, reports=False)
                read = reader.end()
                expect(read["read"] == PIECE and not read["wrong"], f"{read}")
                starts = sender.call("ends", **where)
                held.append(server.memory())
                peaks.append(held[-1].peak_bytes)
        expect(sum(starts) == PASSED, f"{sum(starts)} messages are stored")
    for label, taken in (
        ("idle", idle),
        ("after the first million", held[0]),
        ("after 10 million", held[-1]),
    ):
        _report_memory(run, label, taken, idle)
    run.row("peak", max(peaks) / MB, "MB", max(peaks) / idle.rss_bytes, "idle")
    run.row("through the broker", PASSED / watch.seconds, "messages/s")
    run.note("produced and consumed at the same time, by two clients, as fast as they can")
    run.note("own: without the pages of files that are mapped, such as indexes and libraries")


def _report_memory(run: Run, label: str, taken: Memory, idle: Memory) -> None:
    ratio, against = (None, None) if taken is idle else (taken.rss_bytes / idle.rss_bytes, "idle")
    run.row(label, taken.rss_bytes / MB, "MB", ratio, against)
    if taken is not idle:
        ratio, against = taken.own_bytes / idle.own_bytes, "idle, own"
    run.row(f"{label}, own", taken.own_bytes / MB, "MB", ratio, against)


# --- Connections -------------------------------------------------------------------------------

IDLE: Final = 2000
BUSY: Final = 200
BUSY_BATCH_BYTES: Final = 10 * KB
BUSY_S: Final = 1.5
CROWD_TURNS: Final = 6
NEWCOMERS: Final = 100
NEWCOMERS_S: Final = 4.0


@benchmark("connections", "200 connections that publish, alone and beside 2000 that are idle")
def connections(run: Run) -> None:
    turns, rss, slowest = Turns(plain="alone"), [], []
    batches = 0
    with start_goqueue(run.scratch / "data") as server, ClientProcess(RAW) as crowd:
        asked = {"port": server.port, "topic": "crowd", "count": BUSY}
        first_acknowledged(server.port, "crowd", batch_of(BUSY_BATCH_BYTES))
        before = server.memory().rss_bytes
        for turn in run.progress(2 * CROWD_TURNS, "connections"):
            is_crowded = turn % 4 in {1, 2}
            if is_crowded:
                crowd.call("open", port=server.port, count=IDLE)
                rss.append(server.memory().rss_bytes)
            done = crowd.call("publish", batch_bytes=BUSY_BATCH_BYTES, seconds=BUSY_S, **asked)
            expect(not done["failed"] and done["least"] > 0, f"{done}")
            turns.add("beside idle ones" if is_crowded else "alone", 1 / done["batches_a_second"])
            batches += done["acknowledged"]
            if is_crowded:
                slowest.append(done["slowest_s"])
                busy = server.memory().rss_bytes
                expect(crowd.call("close") == 0, "an idle connection was closed by the broker")
        newcomers_s = _open_beside_busy(server, crowd)
    turns.report_rates(run, f"{BUSY} busy,", 1, "batches/s")
    run.row("slowest acknowledgement beside idle ones", median(slowest) * 1000, "ms")
    run.row("memory before", before / MB, "MB")
    run.row(f"memory with {IDLE} idle", rss[0] / MB, "MB", rss[0] / before, "before")
    run.row("an idle connection", (rss[0] - before) / IDLE / KB, "KB")
    run.row(f"memory with {IDLE} idle and {BUSY} busy", busy / MB, "MB", busy / before, "before")
    run.row(f"{NEWCOMERS} new connections beside {BUSY} busy", newcomers_s * 1000, "ms")
    run.note(f"batches of {BUSY_BATCH_BYTES // KB} KB, one under way on each connection")


def _open_beside_busy(server: BrokerProcess, crowd: ClientProcess) -> float:
    """The seconds until all of them have had their first answer."""
    asked = {"port": server.port, "topic": "crowd", "count": BUSY}
    with ClientProcess(RAW) as newcomers:
        newcomers.call("open", port=server.port, count=1)
        crowd.begin("publish", batch_bytes=BUSY_BATCH_BYTES, seconds=NEWCOMERS_S, **asked)
        time.sleep(NEWCOMERS_S / 2)  # all are under way by then
        taken_s: float = newcomers.call("open", port=server.port, count=NEWCOMERS)
        crowd.end()
    return taken_s


# --- Where the time goes -----------------------------------------------------------------------

PROFILED_S: Final = 5.0
PROFILED: Final = 6_000_000


@benchmark("profile", "Where the broker's processor time goes: requests of two sizes, and fetches")
def profile(run: Run) -> None:
    result = run.scratch / "profile.json"
    launcher = ("benchmarks._profiled", str(result))
    with (
        start_goqueue(run.scratch / "data", module=launcher) as server,
        ClientProcess(RAW) as crowd,
        ClientProcess(KAFKA) as client,
    ):
        first_acknowledged(server.port, "ready", batch_of(KB))
        for name, size in (("1 KB", KB), ("64 KB", 64 * KB)):
            asked = {"port": server.port, "topic": "ready", "count": SENDERS}
            start_profiling(server)
            crowd.call("publish", batch_bytes=size, seconds=PROFILED_S, **asked)
            report_profile(run, server, result, f"publish {name}")
        where = {"address": server.address, "topic": "profile"}
        start_profiling(server)
        send(client, server, where["topic"], PROFILED, reports=False)
        report_profile(run, server, result, "publish by librdkafka")
        server.make_cold()
        start_profiling(server)
        client.call("consume", starts=[0] * PARTITIONS, count=PROFILED, **where)
        report_profile(run, server, result, "fetch by librdkafka, cold")
    run.note("a C function's time is its caller's: that of writelines is _answered's")
