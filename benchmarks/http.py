"""Publishing over HTTP, with the Kafka path in the same table."""
# ruff: noqa: A005 - a group is called what it measures, and is only ever imported from its package

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks._brokers import PARTITIONS, http_port, start_goqueue
from benchmarks._client import ClientProcess
from benchmarks._pairs import send
from benchmarks._profiled import report_profile, start_profiling
from benchmarks._turns import Turns, expect
from benchmarks.harness import Run, benchmark

if TYPE_CHECKING:
    from benchmarks._brokers import BrokerProcess

KAFKA: Final = "Kafka, librdkafka"
CONNECTIONS: Final = 16
TURNS: Final = 7
SECONDS: Final = 2.0
WARM_UP_S: Final = 0.5
PRODUCED: Final = 300_000
MICROSECONDS: Final = 1e6
WAYS: Final = {1: "HTTP, 1 message a request", 100: "HTTP, 100 messages a request"}


@benchmark("publish", "Publish 100-byte messages on 16 connections, with Kafka's path beside it")
def publish(run: Run) -> None:
    turns = Turns(plain=KAFKA)
    found: dict[int, list[dict[str, Any]]] = {count: [] for count in WAYS}
    used_s = dict.fromkeys(WAYS, 0.0)
    with (
        start_goqueue(run.scratch / "data") as broker,
        ClientProcess("_http_client") as client,
        ClientProcess("_kafka_client") as kafka,
    ):
        port = http_port(broker)
        stored = _warm_up(client, kafka, broker, port)
        for _ in run.progress(TURNS, "publish"):
            sent = send(kafka, broker, "kafka", PRODUCED, reports=True)
            turns.add(KAFKA, sent["seconds"] / PRODUCED)
            for count, way in WAYS.items():
                before_s = broker.cpu_s()
                done = _publish(client, port, count, SECONDS)
                used_s[count] += broker.cpu_s() - before_s
                found[count].append(done)
                stored[count] += done["requests"] * count
                turns.add(way, done["seconds"] / (done["requests"] * count))
        for count in WAYS:
            ends = sum(kafka.call("ends", address=broker.address, topic=_topic(count)))
            expect(ends == stored[count], f"{stored[count]} acknowledged, {ends} stored")
    turns.report_rates(run, "messages:", 1, "messages/s")
    for count, way in WAYS.items():
        _report(run, way, found[count], used_s[count])
    run.note(
        f"{PARTITIONS} partitions, keyed, {CONNECTIONS} keep-alive connections with one request "
        f"under way on each, {TURNS} turns of {SECONDS:g} s; both cores are shared with the client"
    )
    run.note(f"Kafka: {PRODUCED} messages a turn, acks=all, linger 5 ms, a report for each message")
    run.note("the end offsets of each topic were equal to what had been acknowledged")


def _topic(count: int) -> str:
    return f"http-{count}"


def _warm_up(
    client: ClientProcess, kafka: ClientProcess, broker: BrokerProcess, port: int
) -> dict[int, int]:
    """Make the topics and fill every cache; returns how many messages each topic then holds."""
    send(kafka, broker, "kafka", PRODUCED // 10, reports=True)
    stored = {}
    for count in WAYS:
        status = client.call("make_topic", port=port, topic=_topic(count))
        expect(status == 201, f"making a topic was answered with {status}")
        stored[count] = _publish(client, port, count, WARM_UP_S)["requests"] * count
    return stored


def _publish(client: ClientProcess, port: int, count: int, seconds: float) -> dict[str, Any]:
    done: dict[str, Any] = client.call(
        "publish",
        port=port,
        topic=_topic(count),
        messages=count,
        connections=CONNECTIONS,
        seconds=seconds,
    )
    return done


def _report(run: Run, way: str, found: list[dict[str, Any]], used_s: float) -> None:
    requests = sum(each["requests"] for each in found)
    rate = median(each["requests"] / each["seconds"] for each in found)
    run.row(f"{way}: requests", rate, "requests/s")
    for rank in ("p50", "p99"):
        run.row(f"{way}: {rank}", median(each[f"{rank}_ms"] for each in found), "ms")
    run.row(f"{way}: CPU of the server", used_s / requests * MICROSECONDS, "µs/request")
    client_s = sum(each["cpu_s"] for each in found)
    run.row(f"{way}: CPU of the client", client_s / requests * MICROSECONDS, "µs/request")


@benchmark("profile", "Where the server's time goes while it is published to over HTTP")
def profile(run: Run) -> None:
    result = run.scratch / "profile.json"
    with (
        start_goqueue(run.scratch / "data", module=("benchmarks._profiled", str(result))) as broker,
        ClientProcess("_http_client") as client,
    ):
        port = http_port(broker)
        for count, way in WAYS.items():
            expect(client.call("make_topic", port=port, topic=_topic(count)) == 201, "no topic")
            _publish(client, port, count, WARM_UP_S)
            start_profiling(broker)
            _publish(client, port, count, SECONDS)
            report_profile(run, broker, result, way)
