"""The same loads on this broker and on Apache Kafka, in alternating turns.

    goqueue bench --against-kafka DIR

DIR has Kafka's jars (README.md says how to fetch them). Both brokers run at the same time with the
settings they come with, and the same clients ask one and then the other. The first turns of each
load are not counted: Kafka's JVM warms up in them.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks._against_kafka_cluster import compare_kills, compare_loads
from benchmarks._brokers import PARTITIONS, start_goqueue
from benchmarks._client import ClientProcess
from benchmarks._kafka_server import KAFKA, start_kafka
from benchmarks._logs import KB, MB
from benchmarks._pairs import Pair, in_turn, send
from benchmarks._queue_run import Queue, measure
from benchmarks._turns import Turns, expect
from benchmarks.harness import Run, benchmark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks._brokers import BrokerProcess

TURNS: Final = 5
WARM_UPS: Final = 2
TOPIC: Final = "measured"


@contextmanager
def _both(run: Run, partitions: int = PARTITIONS) -> Iterator[Pair]:
    """Kafka and goqueue, each with a topic of so many partitions."""
    with start_kafka(run.scratch / "kafka") as kafka, start_goqueue(run.scratch / "data") as ours:
        with ClientProcess("_transaction_client") as admin:
            for broker in (kafka, ours):
                admin.call("make", address=broker.address, topic=TOPIC, partitions=partitions)
        yield kafka, ours


def _in_turns(
    run: Run,
    brokers: Pair,
    what: str,
    seconds_of: Callable[[BrokerProcess, int], float],
    *,
    turns: int = TURNS,
    warm_ups: int = WARM_UPS,
) -> None:
    """Measure both in turn; `seconds_of` does the work once and tells the seconds of one."""
    taken = Turns(plain=KAFKA)
    for turn in run.progress(warm_ups + turns, what):
        for broker in in_turn(brokers, turn):
            seconds = seconds_of(broker, turn)
            if turn >= warm_ups:
                taken.add(broker.name, seconds)
    taken.report_rates(run, f"{what}:", 1, "a second")


# --- Bulk --------------------------------------------------------------------------------------

PRODUCED: Final = 500_000


@benchmark("bulk", "librdkafka produces and consumes 100-byte messages, against Apache Kafka")
def bulk(run: Run) -> None:
    with _both(run) as brokers, ClientProcess("_kafka_client") as client:

        def produced_s(broker: BrokerProcess, _turn: int) -> float:
            sent = send(client, broker, TOPIC, PRODUCED, reports=False)
            return float(sent["seconds"]) / PRODUCED

        def consumed_s(broker: BrokerProcess, _turn: int) -> float:
            asked: dict[str, Any] = {"topic": TOPIC, "starts": [0] * PARTITIONS}
            read = client.call("consume", address=broker.address, count=PRODUCED, **asked)
            expect(read["read"] >= PRODUCED and not read["wrong"], f"{broker.name}: {read}")
            return float(read["seconds"]) / PRODUCED

        _in_turns(run, brokers, "messages produced", produced_s)
        _in_turns(run, brokers, "messages consumed", consumed_s)
        for broker in brokers:
            run.row(f"memory, {broker.name}", broker.memory().rss_bytes / MB, "MB")
    run.note(
        f"{TURNS} turns of {PRODUCED} messages, {PARTITIONS} partitions, acks=all, linger 5 ms"
    )


# --- Small requests ----------------------------------------------------------------------------

WIDE: Final = 32
SENDERS: Final = 16
SENDING_S: Final = 1.0
WARMED_S: Final = 10.0


class Unlingered(NamedTuple):
    """How many messages are sent without a linger, and how many of them may be unconfirmed."""

    unconfirmed: int
    messages: int


UNLINGERED: Final = (Unlingered(1000, 30_000), Unlingered(100_000, 200_000))


@benchmark("requests", "Small requests: many partitions and many producers, against Apache Kafka")
def requests(run: Run) -> None:
    with (
        _both(run, partitions=WIDE) as brokers,
        ClientProcess("_request_client") as client,
        ClientProcess("_raw_client") as raw,
    ):

        def batch_s(broker: BrokerProcess, _turn: int) -> float:
            asked = {"port": broker.port, "topic": TOPIC, "count": SENDERS, "batch_bytes": KB}
            sent = raw.call("publish", seconds=SENDING_S, **asked)
            expect(not sent["failed"], f"{broker.name}: {sent}")
            return 1 / float(sent["batches_a_second"])

        def one_in_flight_s(broker: BrokerProcess, _turn: int) -> float:
            asked = {"address": broker.address, "topic": TOPIC, "producers": SENDERS}
            sent = client.call("one_in_flight", seconds=SENDING_S, **asked)
            expect(sent["left"] == 0, f"{broker.name}: {sent}")
            return 1 / float(sent["a_second"])

        _warm_up(raw, brokers)
        _in_turns(run, brokers, f"batches of 1 KB, {SENDERS} connections", batch_s)
        _in_turns(run, brokers, f"messages, {SENDERS} producers, one in flight", one_in_flight_s)
        for load in UNLINGERED:
            _without_linger(run, client, brokers, load)
    run.note(
        f"{TURNS} turns; 100-byte messages, acks=all; each producer is a librdkafka of its own"
    )
    run.note("batches of 1 KB: without a client library, one batch under way on each connection")


def _warm_up(raw: ClientProcess, brokers: Pair) -> None:
    """Let Kafka's JVM compile the way of a request: it takes some hundred thousand of them."""
    for broker in brokers:
        asked = {"port": broker.port, "topic": TOPIC, "count": SENDERS, "batch_bytes": KB}
        raw.call("publish", seconds=WARMED_S, **asked)


def _without_linger(run: Run, client: ClientProcess, brokers: Pair, load: Unlingered) -> None:
    def message_s(broker: BrokerProcess, _turn: int) -> float:
        asked = {"address": broker.address, "topic": TOPIC, "partitions": WIDE}
        sent = client.call(
            "without_linger", **asked, count=load.messages, unconfirmed=load.unconfirmed
        )
        expect(sent["left"] == 0, f"{broker.name}: {sent}")
        return float(sent["seconds"]) / load.messages

    unconfirmed = f"up to {load.unconfirmed} unconfirmed"
    _in_turns(run, brokers, f"messages, linger.ms=0, {WIDE} partitions, {unconfirmed}", message_s)


# --- Transactions and share groups -------------------------------------------------------------

SMALL: Final = 100
TRANSACTED: Final = 10_000


@benchmark("transactions", "Transactions of 100 messages, against Apache Kafka")
def transactions(run: Run) -> None:
    with _both(run) as brokers, ClientProcess("_transaction_client") as client:

        def transaction_s(broker: BrokerProcess, _turn: int) -> float:
            asked = {"topic": TOPIC, "size": 100, "count": TRANSACTED, "each": SMALL}
            sent = client.call("produce", address=broker.address, **asked)
            expect(sent["left"] == 0, f"{broker.name}: {sent}")
            return float(sent["seconds"]) / (TRANSACTED / SMALL)

        _in_turns(run, brokers, "transactions", transaction_s)
    run.note(f"{TURNS} turns of {TRANSACTED // SMALL} transactions of {SMALL} messages, librdkafka")


SHARED_S: Final = 2.0
SHARING_TURNS: Final = 3


@benchmark("share_groups", "A work queue of two share consumers, against Apache Kafka")
def share_groups(run: Run) -> None:
    with _both(run) as brokers:

        def message_s(broker: BrokerProcess, turn: int) -> float:
            topic = f"shared-{turn}"
            way = "AgainstKafka" if broker.name == KAFKA else "ShareGroup"
            queue = Queue(f"_queue_share:{way}", broker, topic)
            folder = run.scratch / f"{topic}-{broker.name.replace(' ', '-')}"
            return 1 / measure(queue, folder, SHARED_S).rate

        _in_turns(run, brokers, "messages acknowledged", message_s, turns=SHARING_TURNS, warm_ups=1)
    run.note(f"{SHARING_TURNS} turns of {SHARED_S:.0f} s; each message is acknowledged explicitly")


# --- Three nodes -------------------------------------------------------------------------------


@benchmark("cluster", "Three nodes against three of Apache Kafka: forming, messages, latency")
def cluster(run: Run) -> None:
    compare_loads(run)


@benchmark("failover", "Three nodes against three of Apache Kafka: nodes are killed")
def failover(run: Run) -> None:
    compare_kills(run)
