"""What every job of `goqueue job` shares: Spark, the broker, the bar, and the report.

    @job("skew-report", period, sample)
    def skew(call: JobCall, topic: TopicArgument) -> JobReport:
        \"\"\"Show ...\"\"\"
        return jobs.skew_report(call.spark, call.servers, topic, **call.shared)

The function says what is its own. The options of `period` and `sample` (`job_options.py`) and those
that all jobs have are added here.
"""

from __future__ import annotations

import functools
import os
import tempfile
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias
from urllib.parse import urlsplit

import typer

from goqueue.cli.calls import Call, all_parameters, own_parameters, parse_pairs, runnable
from goqueue.cli.contexts import DEFAULT_SERVER
from goqueue.cli.errors import CliError, UsageError
from goqueue.cli.output import Format, note
from goqueue.cli.progress_bars import Bars

if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from goqueue.spark.http_client import Http
    from goqueue.spark.jobs.report import JobReport, Progress

SERVERS_VARIABLE: Final = "GOQUEUE_BOOTSTRAP_SERVERS"
_KAFKA_PORT: Final = 9092
_THIS_MACHINE: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})

app = typer.Typer(no_args_is_help=True, help="Spark jobs over the messages of a topic.")

ServersOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        "-b",
        metavar="HOST:PORT",
        envvar=SERVERS_VARIABLE,
        show_envvar=False,
        help=f"The broker's Kafka address. (default: {SERVERS_VARIABLE}, or port {_KAFKA_PORT} of "
        "the host of --server)",
    ),
]
LinkOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option of the connection, as in kafka.sasl.username=me. Repeatable.",
    ),
]
MasterOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--master",
        metavar="MASTER",
        help="The Spark master: local[2], spark://host:7077, or sc://host:15002 for Spark Connect.",
    ),
]
ConfOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="NAME=VALUE",
        help="A Spark setting, as in spark.driver.memory=4g. Repeatable.",
    ),
]


class JobCall:
    """One run of a job from the command line."""

    def __init__(
        self,
        call: Call,
        name: str,
        *,
        servers: str | None,
        options: Sequence[str] | None,
        master: str,
        conf: Sequence[str] | None,
        progress: Progress,
    ) -> None:
        self.call: Final = call
        self.progress: Final = progress
        self.options: Final[Mapping[str, str]] = parse_pairs(options, "--option")
        self.shared: Final[dict[str, Any]] = {"options": self.options, "progress": progress}
        """What `jobs` takes by name whatever the job: these two, and what sets of options add."""
        self._name = name
        self._servers = servers
        self._master = master
        self._conf = parse_pairs(conf, "--conf")
        self._spark: SparkSession | None = None
        self._log: Path | None = None
        """What Spark says of itself; kept when a job fails."""

    @property
    def servers(self) -> str:
        """The broker's Kafka address."""
        if self._servers is not None:
            return self._servers
        found = (urlsplit(each).hostname or "127.0.0.1" for each in self.call.target().servers)
        hosts = dict.fromkeys(f"[{host}]" if ":" in host else host for host in found)
        return ",".join(f"{host}:{_KAFKA_PORT}" for host in hosts)

    @property
    def hint(self) -> str:
        """What may be wrong with the Kafka address where nobody has named it."""
        if self._servers is not None:
            return ""
        return f". {self.servers} was assumed from --server: name another with --bootstrap-servers"

    @property
    def http(self) -> Http | None:
        """The broker's HTTP side; None where nobody has said where it is.

        The server of other commands is taken for it, but not the one that is only a default when
        the Kafka address is of another machine: that would be another broker.
        """
        from goqueue.spark.http_client import Http  # noqa: PLC0415 - start-up stays light

        target = self.call.target()
        is_said = self.call.given.server is not None or target.server != DEFAULT_SERVER
        if not is_said and self._servers is not None:
            hosts = {each.strip().rpartition(":")[0] for each in self._servers.split(",")}
            if not hosts <= _THIS_MACHINE:
                return None
        return Http(target.server, target.api_key)

    def require_http(self, why: str) -> Http:
        """The broker's HTTP side.

        Raises:
            UsageError: nobody has said where it is.
        """
        found = self.http
        if found is None:
            raise UsageError(f"--server: the broker's HTTP address is needed, {why}")
        return found

    @property
    def spark(self) -> SparkSession:
        """Spark, which takes seconds to start: only asked for when it is needed."""
        if self._spark is None:
            from goqueue.cli.spark.session import start_spark  # noqa: PLC0415 - an extra

            self.progress("starting Spark", 0)
            self._log = Path(tempfile.gettempdir(), f"goqueue-spark-{os.getpid()}.log")
            self._spark = start_spark(f"goqueue-{self._name}", self._master, self._conf, self._log)
        return self._spark

    def require_topic(self, topic: str) -> None:
        """Ask the broker before Spark is started for nothing.

        Raises:
            TopicMissingError: there is no such topic.
            SparkMissingError: there is no Spark, and no reason to wait for a broker.
        """
        from goqueue.spark.jobs.link import Link, find_topic  # noqa: PLC0415 - start-up stays light

        self._look_up()
        with Link(self.servers, self.options).cluster() as cluster:
            find_topic(cluster, topic)

    def require_letters(self, topics: Sequence[str]) -> None:
        """The same for topics with dead letters, or whose letters are meant."""
        self._look_up()
        from goqueue.spark.jobs.dead_letters.letters import find_letter_topics  # noqa: PLC0415 - an extra
        from goqueue.spark.jobs.link import Link  # noqa: PLC0415 - start-up stays light

        find_letter_topics(Link(self.servers, self.options), topics)

    def _look_up(self) -> None:
        from goqueue.spark.requirements import check_spark  # noqa: PLC0415 - start-up stays light

        check_spark(self._master)
        self.progress("looking up topics", 0)

    def close(self, *, failed: bool) -> None:
        """Stop Spark, if it runs."""
        if self._spark is not None:
            self._spark.stop()
        if self._log is not None and self._log.exists():
            if failed:
                note(f"Spark's log: {self._log}")
            else:
                self._log.unlink()


def _shared(
    _call: JobCall,
    *,
    bootstrap_servers: ServersOption = None,
    option: LinkOption = None,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
) -> None:
    """The options of every job; only its signature is used."""


def job(
    name: str, *sets: Callable[..., dict[str, Any]], into: typer.Typer = app
) -> Callable[[Callable[..., JobReport]], Callable[..., JobReport]]:
    """Register a function whose first argument is a `JobCall` and which returns a report.

    Args:
        name: The name of the command.
        sets: Options of several jobs, of `job_options`; what they return is in `JobCall.shared`.
        into: The group of commands.
    """

    def register(function: Callable[..., JobReport]) -> Callable[..., JobReport]:
        @functools.wraps(function)
        def run(call: Call, **values: Any) -> None:
            given = _take(values, common)
            chosen = {each: _take(values, options) for each, options in of_sets.items()}
            with Bars(names_stages=call.output is Format.TABLE) as bars:
                one = JobCall(
                    call,
                    name,
                    servers=given["bootstrap_servers"],
                    options=given["option"],
                    master=given["master"],
                    conf=given["conf"],
                    progress=bars,
                )
                for each, options in chosen.items():
                    one.shared.update(each(**options))
                report = _reported(one, function, values)
            for text in report.warnings:
                note(f"warning: {text}")
            call.show(report.as_dict(), table_of(report))

        names = {"JobCall": JobCall, "JobReport": None}
        own = own_parameters(function, names)
        of_sets = {each: all_parameters(each) for each in sets}
        common = own_parameters(_shared, names)
        into.command(name)(runnable(run, [*own, *chain(*of_sets.values()), *common]))
        return function

    return register


def _take(values: dict[str, Any], options: Sequence[inspect.Parameter]) -> dict[str, Any]:
    """The values of some options, out of those of all."""
    return {each.name: values.pop(each.name) for each in options}


def _reported(
    one: JobCall, function: Callable[..., JobReport], values: dict[str, Any]
) -> JobReport:
    """Run a job; what Spark and the data source raise becomes one sentence."""
    from goqueue.model.errors import GoQueueError  # noqa: PLC0415 - not before a job runs
    from goqueue.spark.errors import BrokerAwayError, OptionsError  # noqa: PLC0415 - the same

    failed = True
    try:
        report = function(one, **values)
        failed = False
    except GoQueueError as error:
        failed = False  # it says all that there is to say
        kind = UsageError if isinstance(error, OptionsError) else CliError
        hint = one.hint if isinstance(error, BrokerAwayError) else ""
        raise kind(f"{error}{hint}") from error
    except ImportError as error:
        from goqueue.spark.requirements import INSTALL  # noqa: PLC0415 - the same

        raise CliError(f"jobs need Spark: {INSTALL} ({error})") from error
    except (BrokenPipeError, KeyboardInterrupt):
        failed = False  # nobody wants to know more
        raise
    except OSError as error:  # a folder that cannot be written, for example
        failed = False
        raise CliError(str(error)) from error
    except Exception as error:
        from goqueue.spark.monitoring.failures import (  # noqa: PLC0415 - an extra
            SPARK_ERRORS,
            reason_of,
        )

        if not isinstance(error, SPARK_ERRORS):
            raise
        raise CliError(reason_of(error)) from error
    else:
        return report
    finally:
        one.close(failed=failed)


def table_of(report: JobReport) -> dict[str, Any]:
    """A report for people: what it counts, its tables below, and where the plots are."""
    shown: dict[str, Any] = {**report.summary}
    if report.files:
        shown["files written"] = list(report.files)
    return shown | {each.title: list(each.rows) for each in report.tables}
