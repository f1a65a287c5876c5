"""`dlq-redrive`: many dead letters are redriven to where they came from, each once.

Letters go in portions. A portion is committed with the record of it (`redriven_index`): a job that
is killed and run again finds out what is redriven, and sends the rest. Portions of one topic's
letters are numbered, and the broker takes each number once, so that of two jobs at the same time
one is told to stop. A letter that its topic refuses stays where it is.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as sql

from goqueue.model.dead_letters import SUFFIX, UNDECODABLE_HEADER
from goqueue.model.delivery import PRIORITY_HEADER, TTL_HEADER
from goqueue.model.topic_partition import TopicPartition
from goqueue.spark.errors import OptionsError, SparkSourceError
from goqueue.spark.jobs.dead_letters import redriven_index
from goqueue.spark.jobs.dead_letters.letters import COLUMNS, described, find_letter_topics
from goqueue.spark.jobs.dead_letters.selection import Selection
from goqueue.spark.jobs.dead_letters.sending import Letter, Sender
from goqueue.spark.jobs.link import Link
from goqueue.spark.jobs.reading import load, resolve, size
from goqueue.spark.jobs.report import JobReport, Table, silent
from goqueue.spark.kafka.topic_admin import topic_setting
from goqueue.spark.writing.pacing import Pacer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from goqueue.spark.jobs.http import Http
    from goqueue.spark.jobs.reading import Ranges
    from goqueue.spark.jobs.report import Progress, Row

PORTION: Final = 50_000
"""Letters in a transaction, at most; and offsets that are looked at together."""
_BURST_S: Final = 2.0
"""With a rate: what would go in so long goes at once."""
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
    """Publish dead letters again, each once, also when this is run again after being killed.

    They go to the topic that they came from and there to the partition of the same number, with
    their key, value and headers, as the broker's own redrive sends them: `goqueue-redriven` counts
    how often, and what the dead-letter headers said is gone.

    Args:
        spark: The session.
        servers: The broker.
        topic: The topic with the dead letters, or the one whose letters are meant.
        selection: Which letters; all by default.
        to: Another topic for all of them.
        limit: Try at most so many.
        rate: Messages a second, on average; they go in bursts of about two seconds.
        dry_run: Only say what would go where.
        http: The broker's HTTP side, to know what it has sent back itself, and to tell it.
        portion: Letters in a transaction, at most.
        options: Options of the connection, such as `kafka.sasl.username`.
        progress: Is told how many letters have gone.

    Returns:
        How many letters went, by target; `stayed` are those whose topic is not there any more, and
        `refused` those that their topic does not take: the first of them are named, with why.

    Raises:
        OptionsError: the arguments make no sense.
        SparkSourceError: there is no such topic, another job sends the same letters at this moment,
            or the broker is away or lets nobody in; what has gone until then is written down.
    """
    chosen = selection or Selection()
    _check(chosen, limit, rate, portion)
    link = Link(servers, options or {})
    (letters_in,) = find_letter_topics(link, [topic])
    known = redriven_index.look_up(link, [letters_in], http)
    if http is not None and known.warnings:
        raise SparkSourceError(known.warnings[0])
    redrive = _Redrive(spark, link, letters_in, chosen=chosen, to=to, known=known)
    warnings = list(known.warnings)
    if http is not None and not dry_run:
        # What a killed job could not tell.
        warnings += redriven_index.tell_broker(http, known.noted)
    pacer = Pacer(rate)
    at_once = portion if rate is None else max(1, min(portion, int(rate * _BURST_S)))
    left = limit
    total = size(redrive.ranges)
    for window in windows(redrive.ranges, portion):
        progress("looking at letters", redrive.looked_at, total)
        found = redrive.find(window, left)
        for at in range(0, len(found), at_once):
            together = found[at : at + at_once]
            if dry_run:
                redrive.count(together)
                continue
            pacer.wait()
            warnings += redrive.send(together, http)
            pacer.count(len(together))
            progress("sending letters", redrive.done, limit)
        left = None if left is None else left - len(found)
        if left == 0:
            break
    progress("looking at letters", redrive.looked_at, redrive.looked_at)
    return redrive.report(warnings, dry_run=dry_run)


def _check(chosen: Selection, limit: int | None, rate: float | None, portion: int) -> None:
    problems = chosen.problems()
    for name, value in (("limit", limit), ("rate", rate), ("portion", portion)):
        if value is not None and value <= 0:
            problems.append(f"{name} is {value}: expected more than 0")
    if problems:
        raise OptionsError(problems)


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
        self.done = 0
        self._spark = spark
        self._link = link
        self._letters_in = letters_in
        self._chosen = chosen
        self._to = to
        self._known = known
        self._sender = Sender(
            spark, link, letters_in, to=to, number=known.numbers.get(letters_in, -1) + 1
        )
        self._by_target: dict[str, int] = {}
        self._stayed: dict[str, int] = {}
        self._refused: list[Row] = []
        self._refused_count = 0
        self._heeds: dict[str, bool] = {}
        """Whether targets take notice of the priorities that letters have."""
        self._counts: dict[str, int] = {}
        if to == letters_in:
            raise OptionsError(["to: letters cannot go to the topic that they are in"])
        if to is not None and not self._partitions(to):
            raise SparkSourceError(f"there is no topic {to!r}")

    def find(self, window: Ranges, most: int | None) -> list[Letter]:
        """The letters of a window that are meant, have not gone and have somewhere to go."""
        letters = described(load(self._spark, self._link, [window], COLUMNS))
        speaks = sql.exists(
            sql.coalesce("headers", sql.array()),
            lambda each: each["key"].isin(PRIORITY_HEADER, TTL_HEADER),
        )
        is_empty = sql.exists(
            sql.coalesce("headers", sql.array()), lambda each: each["key"] == UNDECODABLE_HEADER
        )
        wanted = self._chosen.of(letters).select(
            "partition",
            "offset",
            "source_topic",
            "source_partition",
            speaks.alias("speaks"),
            is_empty.alias("is_empty"),
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
        count = 0 if target == self._letters_in else self._partitions(target)
        if not count:
            self._stayed[target] = self._stayed.get(target, 0) + 1
            return None
        if row["is_empty"]:
            letter = Letter(row["partition"], row["offset"], target, 0)
            self._refuse([(letter, "it holds no message: the record that died does not decode")])
            return None
        if row["speaks"] and target not in self._heeds:
            with self._link.cluster() as cluster:
                setting = topic_setting(cluster, target, "goqueue.kafka.headers")
            self._heeds[target] = setting != "false"
        source = row["source_partition"]
        number = row["partition"] if source is None else source
        return Letter(row["partition"], row["offset"], target, number % count)

    def _partitions(self, topic: str) -> int:
        """How many a topic has; 0 when there is no such topic."""
        if topic not in self._counts:
            with self._link.cluster() as cluster:
                view = cluster.topics([topic]).get(topic)
            self._counts[topic] = 0 if view is None or view.is_internal else len(view.partitions)
        return self._counts[topic]

    def count(self, letters: Sequence[Letter]) -> None:
        """Add letters to what has gone, or would."""
        self.done += len(letters)
        for each in letters:
            self._by_target[each.target] = self._by_target.get(each.target, 0) + 1

    def send(self, letters: Sequence[Letter], http: Http | None) -> list[str]:
        """Send letters, and tell the broker which have gone. Returns warnings."""
        sent, refused = self._sender.send(letters)
        self.count(sent)
        self._refuse(refused)
        if http is None:
            return []
        return redriven_index.tell_broker(http, self._sender.spans_of(sent))

    def _refuse(self, refused: Sequence[tuple[Letter, str]]) -> None:
        self._refused_count += len(refused)
        for letter, error in refused[: _SHOWN - len(self._refused)]:
            place = f"{self._letters_in}/{letter.partition}/{letter.offset}"
            self._refused.append({"letter": place, "topic": letter.target, "error": error})

    def report(self, warnings: list[str], *, dry_run: bool) -> JobReport:
        """What was done."""
        if self._stayed:
            warnings.append(
                f"{sum(self._stayed.values())} letters stay: {', '.join(sorted(self._stayed))} is "
                "not there, or takes no letters. Send them elsewhere with `to`"
            )
        if self._refused_count:
            warnings.append(
                f"{self._refused_count} letters stay: their topics refuse them, "
                f"{self._refused[0]['letter']} among them"
            )
        deaf = sorted(topic for topic, heeds in self._heeds.items() if not heeds)
        if deaf:
            warnings.append(
                f"{', '.join(deaf)} takes no notice of the priority or ttl that some letters have: "
                "set goqueue.kafka.headers=true for it, or use `goqueue queue dlq redrive`"
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
                "stayed": sum(self._stayed.values()),
                "refused": self._refused_count,
            },
            (Table("targets", targets), Table("refused letters", self._refused)),
            warnings=list(dict.fromkeys(warnings)),
        )
