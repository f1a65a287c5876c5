"""`goqueue job`: dead letters triaged and redriven, and reports on what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.calls import ForceOption, confirm
from goqueue.cli.commands import queue_dlq  # noqa: TC001 - Typer looks it up
from goqueue.cli.completion import topic_names
from goqueue.cli.errors import UsageError
from goqueue.cli.output import Format, printable
from goqueue.cli.spark.job_command import JobCall, job
from goqueue.cli.spark.job_options import (
    PartitionerOption,
    SampleOption,
    TopicArgument,
    period,
    sample,
)
from goqueue.cli.times import moment_ms, span_ms
from goqueue.spark import jobs

if TYPE_CHECKING:
    from goqueue.spark.jobs.report import JobReport


@job("dlq-triage")
def triage(
    call: JobCall,
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC]...",
            help="Dead-letter topics, or their source topics. (default: all *.dlq)",
            autocompletion=topic_names,
        ),
    ] = None,
    *,
    since: queue_dlq.SinceOption = None,
    until: queue_dlq.UntilOption = None,
    top: Annotated[
        int, typer.Option("--top", min=1, max=1000, help="The number of causes to show.")
    ] = 50,
    keys: Annotated[
        int,
        typer.Option("--keys", min=0, max=100, help="The number of keys to show for each cause."),
    ] = 3,
    include_gone: Annotated[
        bool, typer.Option("--include-gone", help="Include redriven letters.")
    ] = False,
) -> JobReport:
    """Group dead letters by cause, with the command that redrives each group."""
    died = moment_ms(since, "--since"), moment_ms(until, "--until")
    call.require_letters(topics or ())
    return jobs.dlq_triage(
        call.spark,
        call.servers,
        topics or (),
        since_ms=died[0],
        until_ms=died[1],
        top=top,
        keys=keys,
        include_gone=include_gone,
        http=call.http,
        **call.shared,
    )


@job("dlq-redrive")
def redrive(
    call: JobCall,
    topic: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC",
            help="The dead-letter topic, or its source topic.",
            autocompletion=topic_names,
        ),
    ],
    *,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", help="The target topic. (default: the source topic)", autocompletion=topic_names
        ),
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Only letters with this reason.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="TOPIC", help="Only letters of this source topic."),
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", help="Only letters of this group.")
    ] = None,
    error: Annotated[
        str | None,
        typer.Option(
            "--error",
            help="Only letters with this error, compared without numbers, ids and quoted texts.",
        ),
    ] = None,
    error_like: Annotated[
        str | None,
        typer.Option("--error-like", metavar="REGEX", help="Only letters whose error matches."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="Only letters with this key.")
    ] = None,
    since: queue_dlq.SinceOption = None,
    until: queue_dlq.UntilOption = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="The maximum number of letters.")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", min=0.001, help="The rate limit in messages per second."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would be redriven; publish nothing.")
    ] = False,
    force: ForceOption = False,
) -> JobReport:
    """Redrive many dead letters, each exactly once; the same command resumes after a kill."""
    selection = jobs.Selection(
        reason=reason,
        group=group,
        source=source,
        error=error,
        error_like=error_like,
        key=None if key is None else key.encode("utf-8", "surrogateescape"),
        since_ms=moment_ms(since, "--since"),
        until_ms=moment_ms(until, "--until"),
    )
    if problems := selection.problems():
        raise UsageError(problems[0])
    http = call.require_http("which redrives the letters")
    call.require_letters([topic])
    if not dry_run:
        where = "where they came from" if to is None else to
        confirm(f"Dead letters of {topic} will be published to {where} again.", force=force)
    return jobs.dlq_redrive(
        call.spark,
        call.servers,
        topic,
        selection=selection,
        to=to,
        limit=limit,
        rate=rate,
        dry_run=dry_run,
        http=http,
        **call.shared,
    )


@job("lag-report")
def lag(
    call: JobCall,
    *,
    groups: Annotated[
        str, typer.Option("--group", metavar="PATTERN", help="Only these groups, as in billing-*.")
    ] = "*",
    topics: Annotated[
        str, typer.Option("--topic", metavar="PATTERN", help="Only these topics.")
    ] = "*",
    measure: Annotated[
        str | None,
        typer.Option(
            "--measure",
            metavar="SPAN",
            help="Measure the consumption rate over this time, as in 10s.",
        ),
    ] = None,
    hours: Annotated[
        int,
        typer.Option(
            "--hours",
            min=0,
            max=744,
            help="Count unconsumed messages by hour, for this many hours.",
        ),
    ] = 24,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="Add a row for each partition.")
    ] = False,
) -> JobReport:
    """Show the lag of every group, in messages and in time. Does not start Spark."""
    return jobs.lag_report(
        call.servers,
        groups=groups,
        topics=topics,
        measure_s=(span_ms(measure, "--measure") or 0) / 1000,
        hours=hours,
        partitions=partitions,
        http=call.http,
        **call.shared,
    )


@job("skew-report", period, sample)
def skew(
    call: JobCall,
    topic: TopicArgument,
    *,
    top: Annotated[
        int, typer.Option("--top", min=1, max=1000, help="The number of keys to show.")
    ] = 20,
    every: Annotated[
        str, typer.Option("--every", help="The time interval: minute, hour or day.")
    ] = "hour",
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE.svg", help="Write a plot to this file.")
    ] = None,
    partitioner: PartitionerOption = "mmh3",
) -> JobReport:
    """Show hot keys, partition balance, message sizes and counts over time."""
    call.require_topic(topic)
    report = jobs.skew_report(
        call.spark,
        call.servers,
        topic,
        top=top,
        every=every,
        plot=plot,
        partitioner=partitioner,
        **call.shared,
    )
    if call.call.output is Format.TABLE:
        typer.echo(printable(jobs.text_plot(report)) + "\n")
    return report


@job("trace-report")
def traces(
    call: JobCall,
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Trace files, folders or patterns."),
    ],
    *,
    topics: Annotated[
        list[str] | None, typer.Option("--topic", help="Only messages of this topic. Repeatable.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Only events at this time or later."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Only events before this time.")
    ] = None,
    slowest: Annotated[
        int,
        typer.Option(
            "--slowest", min=0, max=10_000, help="The number of slowest messages to show."
        ),
    ] = 10,
    sample: SampleOption = None,
) -> JobReport:
    """Show the latency of each stage of message processing, from trace files."""
    start_ms, end_ms = moment_ms(since, "--since"), moment_ms(until, "--until")
    return jobs.trace_report(
        call.spark,
        paths,
        topics=topics or (),
        since_ms=start_ms,
        until_ms=end_ms,
        slowest=slowest,
        sample=sample,
        progress=call.progress,
    )


@job("schema-audit", period, sample)
def audit(
    call: JobCall,
    topic: TopicArgument,
    *,
    subject: Annotated[
        str | None, typer.Option("--subject", help="The subject. (default: TOPIC-value)")
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option(
            "--registry", metavar="URL", help="Another schema registry than the server's."
        ),
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", min=0, max=1000, help="The number of causes to show.")
    ] = 10,
) -> JobReport:
    """Show which messages conform to which version of a schema, and why others do not."""
    why = "or the URL of a registry (--registry)"
    at = jobs.Http(registry) if registry is not None else call.require_http(why)
    call.require_topic(topic)
    return jobs.schema_audit(
        call.spark,
        call.servers,
        topic,
        at,
        subject=subject,
        samples=samples,
        **call.shared,
    )
