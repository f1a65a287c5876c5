"""`dlq-redrive`: many dead letters go back to where they came from, each once.

Letters go in portions. A portion is one transaction, which also writes down which letters it is
(`goqueue.spark.jobs.gone`): a job that is killed and run again finds out what has gone, and sends
the rest. Portions of one topic's letters are numbered, and the broker takes each number once, so
that of two jobs at the same time one is told to stop.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import functions as sql

from goqueue.model.dead_letters import HEADER_PREFIX, REDRIVEN_HEADER, SUFFIX
from goqueue.model.delivery import DELIVER_AT_HEADER, PRIORITY_HEADER, TTL_HEADER
from goqueue.spark.errors import OptionsError, SparkSourceError
from goqueue.spark.jobs import gone
from goqueue.spark.jobs.admin import create_topic
from goqueue.spark.jobs.letters import COLUMNS, described, find_letter_topics
from goqueue.spark.jobs.link import Link
from goqueue.spark.jobs.reading import load, resolve, size
from goqueue.spark.jobs.report import JobReport, Table, silent
from goqueue.spark.jobs.selecting import Selection
from goqueue.spark.kafka.producing import topic_setting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from goqueue.spark.jobs.http import Http
    from goqueue.spark.jobs.reading import Ranges
    from goqueue.spark.jobs.report import Progress, Row
    from goqueue.spark.kafka.cluster import Place

PORTION: Final = 50_000
"""Letters in a transaction, at most; and offsets that are looked at together."""
_BURST_S: Final = 2.0
"""With a rate: what would go in so long goes at once."""
_PARTITIONS: Final = 8
"""Tasks of a portion, at most: each holds whole partitions, so that their order is kept."""


class _Letter(NamedTuple):
    """One that is to go: where it is, and where it goes."""

    partition: int
    offset: int
    target: str
    target_partition: int


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
        limit: At most so many.
        rate: Messages a second, on average; they go in bursts of about two seconds.
        dry_run: Only say what would go where.
        http: The broker's HTTP side, to know what it has sent back itself, and to tell it.
        portion: Letters in a transaction, at most.
        options: Options of the connection, such as `kafka.sasl.username`.
        progress: Is told how many letters have gone.

    Returns:
        How many letters went, by target; `stayed` are those whose topic is not there any more.

    Raises:
        OptionsError: the arguments make no sense.
        SparkSourceError: there is no such topic, another job sends the same letters at this moment,
            or the broker is away or refuses; what has gone until then is written down.
    """
    chosen = selection or Selection()
    _check(chosen, limit, rate, portion)
    link = Link(servers, options or {})
    (letters_in,) = find_letter_topics(link, [topic])
    known = gone.look_up(link, [letters_in], http)
    if http is not None and known.warnings:
        raise SparkSourceError(known.warnings[0])
    redrive = _Redrive(spark, link, letters_in, chosen=chosen, to=to, known=known)
    warnings = list(known.warnings)
    if http is not None and not dry_run:
        warnings += gone.tell_broker(http, known.noted)  # what a killed job could not tell
    pace = _Pace(rate)
    at_once = portion if rate is None else max(1, min(portion, int(rate * _BURST_S)))
    left = limit
    total = size(redrive.ranges)
    looked_at = 0
    for window in windows(redrive.ranges, portion):
        progress("looking at letters", looked_at, total)
        found = redrive.find(window)[:left]
        for at in range(0, len(found), at_once):
            together = found[at : at + at_once]
            if not dry_run:
                warnings += redrive.send(together, http)
                pace.wait(len(together))
            redrive.count(together)
            progress("sending letters", redrive.done, limit)
        looked_at += size(window)
        left = None if left is None else left - len(found)
        if left == 0:
            break
    progress("looking at letters", total, total)
    return redrive.report(warnings, dry_run=dry_run)


def _check(chosen: Selection, limit: int | None, rate: float | None, portion: int) -> None:
    problems = chosen.problems()
    for name, value in (("limit", limit), ("rate", rate), ("portion", portion)):
        if value is not None and value <= 0:
            problems.append(f"{name} is {value}: expected more than 0")
    if problems:
        raise OptionsError(problems)


def windows(ranges: Ranges, most: int) -> Iterator[dict[Place, tuple[int, int]]]:
    """All ranges in pieces of at most so many offsets, in order within each partition."""
    window: dict[Place, tuple[int, int]] = {}
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


class _Pace:
    """Holds back whoever is too fast."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._began_s = time.monotonic()
        self._sent = 0

    def wait(self, sent: int) -> None:
        self._sent += sent
        if self._rate is not None:
            time.sleep(max(0.0, self._began_s + self._sent / self._rate - time.monotonic()))


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
        known: gone.Gone,
    ) -> None:
        self.ranges: Final = resolve(link, [letters_in])
        self.done = 0
        self._spark = spark
        self._link = link
        self._letters_in = letters_in
        self._receipts_in = gone.receipts_topic(letters_in)
        self._chosen = chosen
        self._to = to
        self._known = known
        self._run = str(uuid.uuid4())
        self._number = known.numbers.get(letters_in, -1) + 1
        self._by_target: dict[str, int] = {}
        self._stayed: dict[str, int] = {}
        self._deaf: set[str] = set()
        """Targets that take no notice of the priorities that letters have."""
        self._counts: dict[str, int] = {}
        with link.cluster() as cluster:
            self._topic_id = cluster.topics([letters_in])[letters_in].topic_id
        if to is not None and not self._partitions(to):
            raise SparkSourceError(f"there is no topic {to!r}")

    def find(self, window: Ranges) -> list[_Letter]:
        """The letters of a window that are meant, have not gone and have somewhere to go."""
        letters = described(load(self._spark, self._link, [window], COLUMNS))
        speaks = sql.exists(
            sql.coalesce("headers", sql.array()),
            lambda each: each["key"].isin(PRIORITY_HEADER, TTL_HEADER),
        )
        wanted = self._chosen.of(letters).select(
            "partition", "offset", "source_topic", "source_partition", speaks.alias("speaks")
        )
        rows = [
            each
            for each in wanted.orderBy("partition", "offset").collect()
            if not self._known.has((self._letters_in, each["partition"]), each["offset"])
        ]
        return [found for each in rows if (found := self._placed(each)) is not None]

    def _placed(self, row: Any) -> _Letter | None:
        target = self._to or row["source_topic"] or self._letters_in.removesuffix(SUFFIX)
        count = 0 if target == self._letters_in else self._partitions(target)
        if not count:
            self._stayed[target] = self._stayed.get(target, 0) + 1
            return None
        if row["speaks"] and target not in self._deaf:
            with self._link.cluster() as cluster:
                if topic_setting(cluster, target, "goqueue.kafka.headers") == "false":
                    self._deaf.add(target)
        source = row["source_partition"]
        number = row["partition"] if source is None else source
        return _Letter(row["partition"], row["offset"], target, number % count)

    def _partitions(self, topic: str) -> int:
        """How many a topic has; 0 when there is no such topic."""
        if topic not in self._counts:
            with self._link.cluster() as cluster:
                view = cluster.topics([topic]).get(topic)
            self._counts[topic] = 0 if view is None or view.is_internal else len(view.partitions)
        return self._counts[topic]

    def count(self, letters: Sequence[_Letter]) -> None:
        """Add letters to what has gone, or would."""
        self.done += len(letters)
        for each in letters:
            self._by_target[each.target] = self._by_target.get(each.target, 0) + 1

    def send(self, letters: Sequence[_Letter], http: Http | None) -> list[str]:
        """Publish letters and write down that they have gone, at once. Returns warnings."""
        spans = {
            (self._letters_in, number): gone.spans_of(
                each.offset for each in letters if each.partition == number
            )
            for number in sorted({each.partition for each in letters})
        }
        with self._link.cluster() as cluster:
            if self._receipts_in not in cluster.topics([self._receipts_in]):
                create_topic(cluster, self._receipts_in, 1, {"retention.ms": "-1"})
        before = gone.end_of_receipts(self._link, self._letters_in)
        self._messages(letters, spans).unionByName(self._receipts(spans)).write.format(
            "goqueue"
        ).options(**self._link.as_options()).option(
            "txnAppId", f"dlq-redrive-{self._topic_id}"
        ).option("txnVersion", self._number).mode("append").save()
        is_ours = gone.is_written(
            self._link,
            self._letters_in,
            self._topic_id,
            number=self._number,
            run=self._run,
            from_offset=before,
        )
        if not is_ours:
            raise SparkSourceError(
                f"another job sends letters of {self._letters_in} back at this moment: nothing of "
                "this portion was sent; run this again when the other one is done"
            )
        self._number += 1
        return gone.tell_broker(http, spans) if http is not None else []

    def _messages(self, letters: Sequence[_Letter], spans: Mapping[Place, gone.Spans]) -> DataFrame:
        """The letters as new messages, in order within each partition of the letters."""
        ranges = {place: (each[0][0], each[-1][1]) for place, each in spans.items()}
        places = {(each.partition, each.offset): each for each in letters}

        def target_of(partition: int, offset: int) -> dict[str, Any] | None:
            found = places.get((partition, offset))
            if found is None:
                return None
            return {"topic": found.target, "partition": found.target_partition}

        kind = "struct<topic:string,partition:int>"
        rows = described(load(self._spark, self._link, [ranges], f"{COLUMNS} value"))
        goes = sql.udf(target_of, kind, useArrow=False)
        return (
            rows.withColumn("goes", goes("partition", "offset"))
            .where("goes is not null")
            .repartition(min(len(ranges), _PARTITIONS), "partition")
            .sortWithinPartitions("partition", "offset")
            .select("key", "value", _headers().alias("headers"), "goes.topic", "goes.partition")
        )

    def _receipts(self, spans: Mapping[Place, gone.Spans]) -> DataFrame:
        rows = [
            (f"{self._topic_id}/{number}".encode(), value, None, self._receipts_in, 0)
            for (_, number), each in spans.items()
            for value in gone.receipt(
                topic=self._letters_in,
                topic_id=self._topic_id,
                partition=number,
                number=self._number,
                run=self._run,
                to=self._to or "",
                spans=each,
            )
        ]
        return self._spark.createDataFrame(
            rows,
            "key binary, value binary, headers array<struct<key:string,value:binary>>, "
            "topic string, partition int",
        )

    def report(self, warnings: list[str], *, dry_run: bool) -> JobReport:
        """What was done."""
        if self._stayed:
            warnings.append(
                f"{sum(self._stayed.values())} letters stay: there is no topic "
                f"{', '.join(sorted(self._stayed))}. Send them elsewhere with `to`"
            )
        if self._deaf:
            warnings.append(
                f"{', '.join(sorted(self._deaf))} takes no notice of the priority or ttl that some "
                "letters have: set goqueue.kafka.headers=true for it, or use `goqueue queue dlq "
                "redrive`"
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
                "looked_at": size(self.ranges),
                name: self.done,
                "stayed": sum(self._stayed.values()),
            },
            (Table("targets", targets),),
            warnings=list(dict.fromkeys(warnings)),
        )


def _headers() -> Column:
    """The headers of a message that goes back: those it had, and how often it went back."""
    said = sql.coalesce("headers", sql.array())
    own = sql.filter(
        said,
        lambda each: (
            ~each["key"].startswith(HEADER_PREFIX)
            & ~each["key"].isin(REDRIVEN_HEADER, DELIVER_AT_HEADER)
        ),
    )
    again = sql.struct(
        sql.lit(REDRIVEN_HEADER).alias("key"),
        (sql.col("redriven") + 1).cast("string").cast("binary").alias("value"),
    )
    return sql.concat(own, sql.array(again)).cast("array<struct<key:string,value:binary>>")
