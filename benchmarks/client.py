"""GoQueue's Python client against confluent-kafka and aiokafka, all on one broker, in turns.

Messages of 100 bytes without keys. Each client is a process of its own, has the settings that it
comes with, and is used as its documentation shows. Whoever publishes learns what became of each
message: by a delivery callback, a future or a handle. Whoever consumes looks at each value.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from benchmarks._brokers import PARTITIONS, start_goqueue
from benchmarks._client import ClientProcess
from benchmarks._turns import Turns, expect
from benchmarks.harness import Run, benchmark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks._brokers import BrokerProcess

TURNS: Final = 5


class Way(NamedTuple):
    """A client, and one of the ways in which its module publishes or consumes."""

    label: str
    module: str
    name: str


class Load(NamedTuple):
    """What each way is to do."""

    function: str
    """`publish` or `consume`."""
    topic: str
    messages: int


CONFLUENT: Final = "_client_confluent"
AIOKAFKA: Final = "_client_aiokafka"
OURS: Final = "_client_goqueue"

Pairs: TypeAlias = "tuple[tuple[Way, Way], ...]"
"""Ways that are also compared with another one than the first."""

PRODUCE: Final = Way("confluent-kafka, callbacks", CONFLUENT, "produce")
SEND: Final = Way("aiokafka, futures", AIOKAFKA, "send")
ASYNC: Final = Way("AsyncClient", OURS, "async")
SYNC: Final = Way("Client", OURS, "sync")


class Clients:
    """A broker, and a process for each client."""

    def __init__(self, stack: ExitStack, broker: BrokerProcess, ways: Sequence[Way]) -> None:
        modules = dict.fromkeys(way.module for way in ways)
        self._processes = {each: stack.enter_context(ClientProcess(each)) for each in modules}
        self._broker = broker

    def call(self, way: Way, load: Load) -> dict[str, Any]:
        """Have messages published or consumed in this way."""
        asked = {"topic": load.topic, "count": load.messages, "way": way.name}
        process = self._processes[way.module]
        found: dict[str, Any] = process.call(load.function, address=self._broker.address, **asked)
        return found


@contextmanager
def _served(run: Run) -> Iterator[tuple[BrokerProcess, ClientProcess, ExitStack]]:
    """A broker with a topic of many partitions and one of a single one."""
    with (
        start_goqueue(run.scratch / "data") as broker,
        ClientProcess("_transaction_client") as admin,
        ClientProcess("_kafka_client") as kafka,
        ExitStack() as stack,
    ):
        for topic, partitions in (("published", PARTITIONS), ("read", 1)):
            admin.call("make", address=broker.address, topic=topic, partitions=partitions)
        yield broker, kafka, stack


def _in_turns(run: Run, clients: Clients, load: Load, ways: Sequence[Way], pairs: Pairs) -> int:
    """Measure all ways in turn, against the first; how often messages were sent or read."""
    plain = ways[0].label
    seconds, costs = Turns(plain), Turns(plain)
    for turn in run.progress(TURNS + 1, load.function):
        for way in ways if turn % 2 else reversed(ways):
            found = clients.call(way, load)
            if turn:
                seconds.add(way.label, found["seconds"])
                costs.add(way.label, found["cpu_s"])
    seconds.report_rates(run, f"{load.function}:", load.messages, "messages/s")
    costs.report_rates(run, f"{load.function}, client's CPU:", load.messages, "messages/CPU s")
    for way, than in pairs:
        seconds.report_ratio(run, f"{load.function}:", way.label, than.label, load.messages)
    return len(ways) * (TURNS + 1)


# --- Publishing --------------------------------------------------------------------------------

ONE_BY_ONE: Final = 100_000
MANY: Final = 600_000
LIST: Final = Way("AsyncClient, publish_many of a list", OURS, "list")
SYNC_LIST: Final = Way("Client, publish_many of a list", OURS, "sync list")
PUBLISH_MANY: Final = (
    PRODUCE,
    Way("confluent-kafka, produce_batch and callbacks", CONFLUENT, "produce_batch"),
    LIST,
    Way("AsyncClient, publish_many of columns", OURS, "columns"),
    Way("AsyncClient, publish_many of an Arrow table", OURS, "arrow"),
    Way("AsyncClient, publish_many of a DataFrame", OURS, "pandas"),
    SYNC_LIST,
)


@benchmark("publish", "Publish one by one with a handle each, against confluent-kafka and aiokafka")
def publish(run: Run) -> None:
    pairs = ((ASYNC, SEND), (SYNC, ASYNC))
    _publish(run, ONE_BY_ONE, (PRODUCE, SEND, ASYNC, SYNC), pairs)


@benchmark("publish_many", "Publish lists, columns and tables, against confluent-kafka")
def publish_many(run: Run) -> None:
    _publish(run, MANY, PUBLISH_MANY, ((SYNC_LIST, LIST),))


def _publish(run: Run, count: int, ways: Sequence[Way], pairs: Pairs) -> None:
    with _served(run) as (broker, kafka, stack):
        clients = Clients(stack, broker, ways)
        load = Load("publish", "published", count)
        measured = _in_turns(run, clients, load, ways, pairs)
        # Each way publishes one message more, before it is measured.
        expected = measured * (count + 1)
        stored = sum(kafka.call("ends", address=broker.address, topic="published"))
        expect(stored == expected, f"{stored} of {expected} messages are stored")
    run.note(f"{TURNS} turns of {count} messages to {PARTITIONS} partitions; all were stored, once")


# --- Consuming ---------------------------------------------------------------------------------

READ: Final = 400_000
TUNED: Final = Way("confluent-kafka, consume(500), tuned", CONFLUENT, "consume, tuned")
ASYNC_BATCHES: Final = Way("AsyncClient, batches", OURS, "batches")
SYNC_BATCHES: Final = Way("Client, batches", OURS, "sync batches")
TUNED_POLL: Final = Way("confluent-kafka, poll, tuned", CONFLUENT, "poll, tuned")
BATCHES: Final = (
    Way("confluent-kafka, consume(500)", CONFLUENT, "consume"),
    TUNED,
    ASYNC_BATCHES,
    Way("AsyncClient, Arrow", OURS, "arrow batches"),
    Way("AsyncClient, pandas", OURS, "pandas batches"),
    SYNC_BATCHES,
)
SINGLE: Final = (
    Way("confluent-kafka, poll", CONFLUENT, "poll"),
    TUNED_POLL,
    Way("aiokafka", AIOKAFKA, "async for"),
    ASYNC,
    SYNC,
)


@benchmark("consume", "Consume batches, against confluent-kafka")
def consume(run: Run) -> None:
    _consume(run, BATCHES, ((ASYNC_BATCHES, TUNED), (SYNC_BATCHES, ASYNC_BATCHES)))


@benchmark("consume_single", "Consume one by one, against confluent-kafka and aiokafka")
def consume_single(run: Run) -> None:
    _consume(run, SINGLE, ((ASYNC, TUNED_POLL), (SYNC, ASYNC)))


def _consume(run: Run, ways: Sequence[Way], pairs: Pairs) -> None:
    with _served(run) as (broker, kafka, stack):
        clients = Clients(stack, broker, ways)
        asked: dict[str, Any] = {"address": broker.address, "topic": "read", "count": READ}
        expect(kafka.call("produce", reports=False, **asked)["acknowledged"] == READ, "not all")
        _in_turns(run, clients, Load("consume", "read", READ), ways, pairs)
    run.note(f"{TURNS} turns of {READ} messages of one partition; the page cache is warm")
    run.note("tuned: fetch.queue.backoff.ms=1 in place of a second, which is what limits the plain")
