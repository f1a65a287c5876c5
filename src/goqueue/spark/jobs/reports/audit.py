"""`schema-audit`: which messages of a topic fit which version of its schema, and which fit none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame, SparkSession, functions as sql
from pyspark.storagelevel import StorageLevel

from goqueue.model.errors import GoQueueError
from goqueue.spark.errors import ValueFormatError
from goqueue.spark.jobs.error_text import normalised
from goqueue.spark.jobs.link import Link
from goqueue.spark.jobs.reading import load, resolve, sample_of
from goqueue.spark.jobs.report import JobReport, Progress, Row, Table, silent
from goqueue.spark.jobs.reports import fitting
from goqueue.spark.jobs.reports.fitting import FRAME_HEADERS, Judge, Verdict
from goqueue.spark.jobs.task_progress import watched
from goqueue.spark.values.registry import RegisteredSchema, SchemaRegistry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goqueue.spark.http_client import Http

_MAX_FIELDS: Final = 10_000
"""Different names of fields that are counted; a topic of free JSON may have any number."""
_VERDICT: Final = (
    "struct<kind:string,version:int,fits:array<int>,present:array<string>,reason:string>"
)
_MISFITS: Final = (fitting.MISFIT, fitting.NONE, fitting.FOREIGN)


def schema_audit(
    spark: SparkSession,
    servers: str,
    topic: str,
    registry: Http,
    *,
    subject: str | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    samples: int = 10,
    sample: float | None = None,
    options: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> JobReport:
    """Hold every message of a topic against the versions of its subject.

    Args:
        spark: The session.
        servers: The broker.
        topic: The topic.
        registry: Where its schemas are: the broker's HTTP address, or any registry of that API.
        subject: The subject; `TOPIC-value` by default.
        since_ms: From the first message of this time on.
        until_ms: Up to the first message of this time.
        samples: How many causes of misfits are shown, each with one message.
        sample: Read only this share of each partition.
        options: Options of the connection, such as `kafka.sasl.username`.
        progress: Called with the progress of the job.

    Returns:
        Tables `versions` (shares, first and last message), `misfits` (why, how often, one of them)
        and `silent_fields` (fields of a version that no message of it says anything in).

    Raises:
        ValueFormatError: there is no such subject, or it has a schema that cannot be read.
        SparkSourceError: there is no such topic, or the broker or registry is unavailable.
    """
    name = subject or f"{topic}-value"
    versions = SchemaRegistry(registry).versions(name)
    judge = _judge(versions, name)
    link = Link(servers, options or {})
    sampled = sample_of(resolve(link, [topic], since_ms, until_ms), sample)
    verdicts = _verdicts(load(spark, link, sampled.pieces, _COLUMNS), versions)
    verdicts.persist(StorageLevel.DISK_ONLY)
    try:
        with watched(spark, "judging messages", progress):
            counted = _counted(verdicts)
        with watched(spark, "looking at misfits and fields", progress):
            fits = _fits(verdicts)
            misfits = _misfits(verdicts, samples)
            fields = _fields(verdicts)
    finally:
        verdicts.unpersist()
    total = sum(each["messages"] for each in counted)
    by_kind = _by_kind(counted)
    fitting_count = by_kind[fitting.NAMED] + by_kind[fitting.FITS]
    summary: dict[str, Any] = {
        "topic": topic,
        "subject": name,
        "messages": total,
        "fit": fitting_count,
        "fit_share": _share(fitting_count, total - by_kind[fitting.TOMBSTONE]),
        **{kind: by_kind[kind] for kind in (*_MISFITS, fitting.TOMBSTONE)},
        "sampled": not sampled.is_whole,
    }
    silent_fields = _silent_rows(judge, versions, counted, fields)
    return JobReport(
        "schema-audit",
        summary,
        (
            Table("versions", _version_rows(versions, counted, fits, total)),
            Table("misfits", misfits),
            Table("silent_fields", silent_fields),
        ),
        warnings=sampled.warnings(),
    )


_COLUMNS: Final = "partition offset timestamp value headers"


def _judge(versions: Sequence[RegisteredSchema], subject: str) -> Judge:
    try:
        return Judge(versions)
    except GoQueueError as error:
        raise ValueFormatError(f"a schema of {subject} cannot be read: {error}") from error


# --- Counting ------------------------------------------------------------------------------------


def _verdicts(messages: DataFrame, versions: Sequence[RegisteredSchema]) -> DataFrame:
    """A row a message, with what is said of it and nothing of what is in it."""
    judging = _Judging(versions)
    judged = sql.udf(judging.verdict, _VERDICT, useArrow=False)
    named = sql.filter("headers", lambda each: each["key"].isin(*FRAME_HEADERS))
    rows = messages.select(
        "partition", "offset", "timestamp", judged("value", named).alias("verdict")
    )
    return rows.select("partition", "offset", "timestamp", "verdict.*")


class _Judging:
    """What is sent to the tasks: the texts of schemas. Each process reads them once."""

    def __init__(self, versions: Sequence[RegisteredSchema]) -> None:
        self._versions = versions
        self._judge: Judge | None = None

    def __getstate__(self) -> Any:
        return self._versions

    def __setstate__(self, versions: Any) -> None:
        self._versions, self._judge = versions, None

    def verdict(self, value: bytearray | None, headers: Any) -> Verdict:
        """Judge one message, in a task."""
        if self._judge is None:
            self._judge = Judge(self._versions)
        pairs = tuple(
            (each["key"], None if each["value"] is None else bytes(each["value"]))
            for each in headers or ()
        )
        return self._judge.verdict(None if value is None else bytes(value), pairs)


def _counted(verdicts: DataFrame) -> list[Any]:
    place = sql.struct("partition", "offset")
    moment = sql.struct("timestamp", "partition", "offset")
    return (
        verdicts.groupBy("kind", "version")
        .agg(
            sql.count("*").alias("messages"),
            sql.min_by(place, moment).alias("first"),
            sql.max_by(place, moment).alias("last"),
            sql.min(moment).alias("from"),
            sql.max(moment).alias("to"),
        )
        .collect()
    )


def _fits(verdicts: DataFrame) -> dict[int, int]:
    counted = verdicts.select(sql.explode("fits").alias("version")).groupBy("version").count()
    return {each["version"]: each["count"] for each in counted.collect()}


def _misfits(verdicts: DataFrame, samples: int) -> list[Row]:
    cause = sql.udf(normalised, "string", useArrow=False)
    found = (
        verdicts.where(sql.col("kind").isin(*_MISFITS))
        .groupBy("kind", "version", cause("reason").alias("cause"))
        .agg(
            sql.count("*").alias("messages"),
            sql.min(sql.struct("timestamp", "partition", "offset", "reason")).alias("sample"),
        )
        .orderBy(sql.desc("messages"), "kind", "version", "cause")
        .limit(max(0, samples))
        .collect()
    )
    return [
        {
            "messages": each["messages"],
            "kind": each["kind"],
            "version": each["version"],
            "cause": each["cause"],
            "sample": f"{each['sample']['partition']}/{each['sample']['offset']}",
            "sample_reason": each["sample"]["reason"],
        }
        for each in found
    ]


def _fields(verdicts: DataFrame) -> dict[tuple[int, str], int]:
    counted = (
        verdicts.where("version is not null")
        .select("version", sql.explode("present").alias("field"))
        .groupBy("version", "field")
        .count()
        .limit(_MAX_FIELDS)
        .collect()
    )
    return {(each["version"], each["field"]): each["count"] for each in counted}


# --- Telling -------------------------------------------------------------------------------------


def _by_kind(counted: Sequence[Any]) -> dict[str, int]:
    kinds = (fitting.NAMED, fitting.FITS, *_MISFITS, fitting.TOMBSTONE)
    found = dict.fromkeys(kinds, 0)
    for each in counted:
        found[each["kind"]] += each["messages"]
    return found


def _version_rows(
    versions: Sequence[RegisteredSchema],
    counted: Sequence[Any],
    fits: Mapping[int, int],
    total: int,
) -> list[Row]:
    rows: list[Row] = []
    for version in versions:
        mine = [each for each in counted if each["version"] == version.number]
        by_kind = _by_kind(mine)
        good = [each for each in mine if each["kind"] != fitting.MISFIT]
        first = min(good, key=lambda each: each["from"])["first"] if good else None
        last = max(good, key=lambda each: each["to"])["last"] if good else None
        count = by_kind[fitting.NAMED] + by_kind[fitting.FITS]
        rows.append(
            {
                "version": version.number,
                "schema_id": version.schema_id,
                "type": version.schema.type.value,
                "messages": count,
                "share": _share(count, total),
                "named_it": by_kind[fitting.NAMED],
                "fit_it": fits.get(version.number, 0),
                "misfits": by_kind[fitting.MISFIT],
                "first": None if first is None else f"{first[0]}/{first[1]}",
                "last": None if last is None else f"{last[0]}/{last[1]}",
            }
        )
    return rows


def _silent_rows(
    judge: Judge,
    versions: Sequence[RegisteredSchema],
    counted: Sequence[Any],
    fields: Mapping[tuple[int, str], int],
) -> list[Row]:
    """Fields that a version has and that none of its messages says anything in."""
    if len(fields) >= _MAX_FIELDS:
        return []  # not all were counted: silence cannot be told
    used = {
        each["version"]
        for each in counted
        if each["kind"] in {fitting.NAMED, fitting.FITS} and each["messages"]
    }
    return [
        {"version": version.number, "field": name}
        for version in versions
        if version.number in used
        for name in judge.field_names(version.number)
        if (version.number, name) not in fields
    ]


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
