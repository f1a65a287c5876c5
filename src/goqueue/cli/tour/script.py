"""The steps of the tour: what is shown, and the commands that show it."""

from __future__ import annotations

from typing import Final, NamedTuple


class Waiting(NamedTuple):
    """What must be there before the next command, since it happens by itself."""

    path: str
    field: str
    at_least: int


class Step(NamedTuple):
    """A sentence or two, and commands; `goqueue` and `python` are run, other lines are shown."""

    title: str
    text: str
    commands: tuple[str | Waiting, ...]


def steps(delay: str) -> tuple[Step, ...]:
    """The whole tour; a delayed message is due after `delay`."""
    return (*_LOG, *_QUEUE, _order(delay), _REPLAY)


_LOG: Final = (
    Step(
        "A log",
        "A topic keeps messages in order by key, as Kafka does. Reading them does not remove them.",
        (
            "goqueue topic create orders --partitions 3",
            """goqueue produce orders --key ada --message '{"id": 1, "total": 30}'""",
            """goqueue produce orders --key bob --message '{"id": 2, "total": 75}'""",
            """goqueue produce orders --key eve --message '{"id": 3}'""",
            "goqueue consume orders",
            r"""goqueue consume orders --filter '$.total > 50' --format '%k: %v\n'""",
        ),
    ),
    Step(
        "A consumer group",
        "Its members share the partitions, and committed offsets say how far it has read.",
        (
            r"goqueue consume orders --group readers --format '%k: %v\n'",
            "goqueue group offsets readers",
        ),
    ),
)

_QUEUE: Final = (
    Step(
        "A work queue with retries",
        "The same topic, now with an acknowledgement for each message. worker.py fails an order\n"
        "without a total: it is redelivered, and dead-lettered after two failed deliveries.",
        (
            "python worker.py {servers} 4",
            Waiting("/topics/orders/dlq", "total", 1),
            "goqueue queue dlq list orders",
        ),
    ),
    Step(
        "A redrive",
        "The bug in the worker is fixed, so the dead letter is published to its topic again.",
        (
            "goqueue queue dlq redrive orders --force",
            "python worker.py {servers} 1 --fixed",
            "goqueue queue list",
        ),
    ),
)


def _order(delay: str) -> Step:
    return Step(
        "Delay and priority",
        f"Order 4 is due in {delay}. Of the ready messages, critical ones are delivered\n"
        "first: 6 before 5.",
        (
            f"""goqueue produce orders --delay {delay} --message '{{"id": 4, "total": 1}}'""",
            "goqueue delayed list orders",
            """goqueue produce orders --priority background --message '{"id": 5, "total": 1}'""",
            """goqueue produce orders --priority critical --message '{"id": 6, "total": 1}'""",
            "python worker.py {servers} 3",
        ),
    )


_REPLAY: Final = Step(
    "Replay",
    "The log still has everything: a group can read it again, from any offset or time.",
    (
        "goqueue group reset-offsets readers --topic orders --to-earliest",
        r"goqueue consume orders --group readers --format '%T %p:%o %v\n'",
        "goqueue top --once",
    ),
)
