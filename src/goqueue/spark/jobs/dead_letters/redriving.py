"""`dlq-redrive`: many dead letters are redriven to where they came from, each once.

The job selects letters in Spark, and has the broker redrive exactly these (`broker_redrive`), in
portions. It publishes nothing itself: the broker knows what it has redriven, so a job that is
killed and run again, two jobs at once, and somebody else's redrive cannot send a letter twice. A
letter that its topic refuses stays where it is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import SparkSession, functions as sql

from goqueue.model.dead_letters import SUFFIX, UNDECODABLE_HEADER
from goqueue.model.topic_partition import TopicPartition
from goqueue.spark.errors import OptionsError, SparkSourceError
from goqueue.spark.jobs.dead_letters import redriven_index
from goqueue.spark.jobs.dead_letters.broker_redrive import redrive_named
from goqueue.spark.jobs.dead_letters.letters import COLUMNS, described, find_letter_topics
from goqueue.spark.jobs.dead_letters.selection import Selection
from goqueue.spark.jobs.link import Link
from goqueue.spark.jobs.reading import Ranges, load, resolve, size
from goqueue.spark.jobs.report import JobReport, Progress, Row, Table, silent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from goqueue.spark.http_client import Http

PORTION: Final = 50_000
"""Letters in a request, at most; and offsets that are looked at together."""
_BURST_S: Final = 10.0
"""With a rate: a request takes so long. The broker finishes the one of a job that is killed."""
_SHOWN: Final = 100
"""Refused letters that a report names, at most; all of them are counted."""


def dlq_redrive(
    spark: SparkSession,
    servers: str,
    topic: str,
    *,
    selection: Selection | None = None,
    to: str | None = None,
    limit: int | None = None,
    rate: float | None = None,
    dry_run: bool = False,
    http: Http | None = None,
    portion: int = PORTION,
    options: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> JobReport:
    """Have the broker redrive dead letters, each once, also when this is killed and run again.

    They go to the topic that they came from and there to the partition of the same number, with
    their key, value and headers: `goqueue-redriven` counts how often, and what the dead-letter
    headers said is gone.

    Args:
        spark: The session.
        servers: The broker.
        topic: The topic with the dead letters, or the one whose letters are meant.
        selection: Which letters; all by default.
        to: Another topic for all of them.
        limit: Try at most so many.
        rate: Messages a second.
        dry_run: Only say what would go where.
        http: The broker's HTTP side, which redrives them. Needed.
        portion: Letters in a request, at most.
        options: Options of the connection, such as `kafka.sasl.username`.
        progress: Is told how many letters were redriven.

    Returns:
        How many letters went, by target; `stayed` are those whose topic is not there any more, and
        `refused` those that their topic does not take: the first of them are named, with why.

    Raises:
        OptionsError: arguments are invalid.
        SparkSourceError: there is no such topic, or the broker is away or refuses us; it knows
            what it has redriven until then.
    """
    chosen = selection or Selection()
    _check(chosen, limit, rate, portion)
    if http is None:
        raise OptionsError(["http: the broker's HTTP address is needed, it redrives the letters"])
    link = Link(servers, options or {})
    (letters_in,) = find_letter_topics(link, [topic])
    known = redriven_index.look_up(link, [letters_in], http)
    if known.warnings:
        raise SparkSourceError(known.warnings[0])
    redrive = _Redrive(spark, link, letters_in, chosen=chosen, to=to, known=known)
    if not dry_run:
        redriven_index.tell_broker(http, known.recorded)
    at_once = portion if rate is None else max(1, min(portion, int(rate * _BURST_S)))
    left = limit
    total = size(redrive.ranges)
    for window in windows(redrive.ranges, portion):
        progress("looking at letters", redrive.looked_at, total)
        found = redrive.find(window, left)
        for at in range(0, len(found), at_once):
            together = found[at : at + at_once]
            if dry_run:
                redrive.add(Counter(each.target for each in together))
                continue
            redrive.add_answer(
                redrive_named(
                    http,
                    letters_in,
                    _offsets(together),
                    to=to,
                    rate=rate,
                    on_progress=lambda done: progress(
                        "sending letters", redrive.done + done, limit
                    ),
                )
            )
            progress("sending letters", redrive.done, limit)
        left = None if left is None else left - len(found)
        if left == 0:
            break
    progress("looking at letters", redrive.looked_at, redrive.looked_at)
    return redrive.report(dry_run=dry_run)


def _check(chosen: Selection, limit: int | None, rate: float | None, portion: int) -> None:
    problems = chosen.problems()
    for name, value in (("limit", limit), ("rate", rate), ("portion", portion)):
        if value is not None and value <= 0:
            problems.append(f"{name} is {value}: expected more than 0")
    if problems:
        raise OptionsError(problems)


def _offsets(letters: Iterable[Letter]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for each in letters:
        found[each.partition].append(each.offset)
    return found


def windows(ranges: Ranges, most: int) -> Iterator[dict[TopicPartition, tuple[int, int]]]:
    """All ranges in pieces of at most so many offsets, in order within each partition."""
    window: dict[TopicPartition, tuple[int, int]] = {}
    room = most
    for place, (first, end) in sorted(ranges.items()):
        at = first
        while at < end:
            upto = min(end, at + room)
            window[place] = (at, upto)
            room -= upto - at
            at = upto
            if not room:
                yield window
                window, room = {}, most
    if window:
        yield window


class Letter(NamedTuple):
    """One that is to be redriven: where it is, and where it goes."""

    partition: int
    offset: int
    target: str


class _Redrive:
    """One run, and what it has done so far."""

    def __init__(
        self,
        spark: SparkSession,
        link: Link,
        letters_in: str,
        *,
        chosen: Selection,
        to: str | None,
        known: redriven_index.RedrivenIndex,
    ) -> None:
        self.ranges: Final = resolve(link, [letters_in])
        self.looked_at = 0
        """Offsets; what was not needed is not looked at."""
        self._spark = spark
        self._link = link
        self._letters_in = letters_in
        self._chosen = chosen
        self._to = to
        self._known = known
        self._by_target: Counter[str] = Counter()
        self._stayed: Counter[str] = Counter()
        self._refused: list[Row] = []
        self._refused_count = 0
        self._takes_letters: dict[str, bool] = {}
        if to == letters_in:
            raise OptionsError(["to: letters cannot go to the topic that they are in"])
        if to is not None and not self._is_target(to):
            raise SparkSourceError(f"there is no topic {to!r}")

    @property
    def done(self) -> int:
        """Letters that were redriven, or would be."""
        return self._by_target.total()

    def find(self, window: Ranges, most: int | None) -> list[Letter]:
        """The letters of a window that are meant, were not redriven and have somewhere to go."""
        letters = described(load(self._spark, self._link, [window], COLUMNS))
        is_empty = sql.exists(
            sql.coalesce("headers", sql.array()), lambda each: each["key"] == UNDECODABLE_HEADER
        )
        wanted = self._chosen.of(letters).select(
            "partition", "offset", "source_topic", is_empty.alias("is_empty")
        )
        rows = [
            each
            for each in wanted.orderBy("partition", "offset").collect()
            if not self._known.has(
                TopicPartition(self._letters_in, each["partition"]), each["offset"]
            )
        ]
        self.looked_at += size(window)
        placed = (found for each in rows if (found := self._placed(each)) is not None)
        return list(islice(placed, most))

    def _placed(self, row: Any) -> Letter | None:
        target = self._to or row["source_topic"] or self._letters_in.removesuffix(SUFFIX)
        if target == self._letters_in or not self._is_target(target):
            self._stayed[target] += 1
            return None
        letter = Letter(row["partition"], row["offset"], target)
        if row["is_empty"]:
            self._refused_count += 1
            self._name(letter, "it holds no message: the record that died does not decode")
            return None
        return letter

    def _is_target(self, topic: str) -> bool:
        """Whether there is such a topic, and clients may write to it."""
        if topic not in self._takes_letters:
            with self._link.cluster() as cluster:
                view = cluster.topics([topic]).get(topic)
            self._takes_letters[topic] = view is not None and not view.is_internal
        return self._takes_letters[topic]

    def add(self, targets: Mapping[str, int]) -> None:
        """Count letters that were redriven, or would be."""
        self._by_target.update(targets)

    def add_answer(self, answer: Mapping[str, Any]) -> None:
        """Count what the broker says became of letters."""
        self.add(answer["targets"])
        self._refused_count += answer["failed"]
        for each in answer["refused"]:
            self._name(Letter(each["partition"], each["offset"], each["to"]), each["error"])

    def _name(self, letter: Letter, error: str) -> None:
        if len(self._refused) < _SHOWN:
            place = f"{self._letters_in}/{letter.partition}/{letter.offset}"
            self._refused.append({"letter": place, "topic": letter.target, "error": error})

    def report(self, *, dry_run: bool) -> JobReport:
        """What was done."""
        warnings = []
        if self._stayed:
            warnings.append(
                f"{self._stayed.total()} letters stay: {', '.join(sorted(self._stayed))} is "
                "not there, or takes no letters. Send them elsewhere with `to`"
            )
        if self._refused_count:
            warnings.append(
                f"{self._refused_count} letters stay: their topics refuse them, "
                f"{self._refused[0]['letter']} among them"
            )
        name = "would_go" if dry_run else "sent"
        targets: list[Row] = [
            {"topic": topic, name: count} for topic, count in sorted(self._by_target.items())
        ]
        return JobReport(
            "dlq-redrive",
            {
                "letters_in": self._letters_in,
                "dry_run": dry_run,
                "looked_at": self.looked_at,
                name: self.done,
                "stayed": self._stayed.total(),
                "refused": self._refused_count,
            },
            (Table("targets", targets), Table("refused letters", self._refused)),
            warnings=warnings,
        )
