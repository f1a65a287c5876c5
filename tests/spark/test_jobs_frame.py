"""What the commands of jobs share, without a Spark: none of these may start one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import pytest
import typer
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import PySparkException
from typer.testing import CliRunner

from goqueue.cli.calls import Call, Globals, root_callback
from goqueue.cli.errors import UsageError
from goqueue.cli.root import app as whole
from goqueue.cli.spark.job_command import JobCall, job
from goqueue.cli.spark.job_options import stopping, time_range
from goqueue.spark.errors import OptionsError, TopicMissingError
from goqueue.spark.jobs import JobReport, Table, silent
from goqueue.testing import Broker


def counting(
    call: JobCall, topic: str, *, fails: Annotated[str | None, typer.Option("--fails")] = None
) -> JobReport:
    """Count."""
    call.progress("counting", 1, 2)
    call.progress("counting", 2, 2)
    if fails == "ours":
        raise TopicMissingError("there is no topic 'x'")
    if fails == "options":
        raise OptionsError(["rate: expected more than 0 rows a second, not 0"])
    if fails == "disk":
        raise PermissionError(13, "Permission denied", "/lake")
    if fails == "ctrl-c":
        call._log = Path("spark.log")  # as if Spark had been started
        call._log.write_text("it was interrupted")
        raise KeyboardInterrupt
    if fails == "spark":
        raise PySparkException("[ODD] Something.\n\nJVM stacktrace:\norg.apache")
    if fails == "py4j":
        raise Py4JError("Answer from Java side is empty")
    return JobReport(
        "counting",
        {"topic": topic, "servers": call.servers, "options": json.dumps(dict(call.options))},
        [Table("by key", [{"key": "a", "rows": 2}])],
        files=["plot.svg"],
        warnings=["it is late"],
    )


@pytest.fixture
def run(monkeypatch):
    monkeypatch.delenv("GOQUEUE_BOOTSTRAP_SERVERS", raising=False)
    app = typer.Typer()
    app.callback()(root_callback)
    job("counting", into=app)(counting)

    def invoke(*arguments):
        return CliRunner().invoke(app, ["counting", *arguments])

    return invoke


def test_a_report_is_a_table_for_people_and_json_for_programs(run):
    shown = run("orders", "-s", "http://broker:8080")
    assert shown.stdout.splitlines() == [
        "topic          orders",
        "servers        broker:9092",
        "options        {}",
        "files written  plot.svg",
        "",
        "by key:",
        "key  rows",
        "a       2",
    ]
    assert shown.stderr.splitlines() == ["counting ...", "warning: it is late"]
    found = run("orders", "-b", "other:1", "--option", "kafka.x=a=b", "-o", "json")
    assert json.loads(found.stdout) == {
        "job": "counting",
        "topic": "orders",
        "servers": "other:1",
        "options": '{"kafka.x": "a=b"}',
        "by_key": [{"key": "a", "rows": 2}],
        "files": ["plot.svg"],
        "warnings": ["it is late"],
    }
    assert run("orders", "-s", "http://[::1]:8080").stdout.splitlines()[1].endswith(" [::1]:9092")


@pytest.mark.parametrize(
    ("arguments", "text", "exit_code"),
    [
        (["--fails", "ours"], "goqueue: there is no topic 'x'", 1),
        (["--fails", "options"], "  - rate: expected more than 0 rows a second, not 0", 2),
        (["--fails", "disk"], "goqueue: [Errno 13] Permission denied: '/lake'", 1),
        (["--fails", "spark"], "goqueue: Something.", 1),
        (["--fails", "py4j"], "goqueue: Answer from Java side is empty", 1),
        (["--option", "x"], "goqueue: --option: expected NAME=VALUE, not 'x'", 2),
        (["--conf", "=1"], "goqueue: --conf: expected NAME=VALUE, not '=1'", 2),
    ],
)
def test_what_goes_wrong_is_one_line(run, arguments, text, exit_code):
    failed = run("orders", *arguments)
    assert failed.stderr.splitlines()[-1] == text
    assert failed.stdout == ""
    assert failed.exit_code == exit_code


def test_ctrl_c_ends_a_job_as_shells_expect_and_leaves_nothing_behind(run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    stopped = run("orders", "--fails", "ctrl-c")
    assert (stopped.exit_code, stopped.stdout) == (130, "")
    assert stopped.stderr.splitlines() == ["counting ..."]
    assert list(tmp_path.iterdir()) == []


def test_the_first_ctrl_c_asks_a_job_that_follows_to_end_and_the_second_ends_it(capsys):
    before = signal.getsignal(signal.SIGINT)
    stop = threading.Event()
    with stopping(stop, "piece"):
        assert not stop.is_set()
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    assert "stopping after the current piece" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("replay a b --since yesterday", "--since: 'yesterday' is no time"),
        ("dedupe a b --window often", "--window: 'often' is no duration"),
        ("archive a b --until soon", "--until: 'soon' is no time"),
        ("archive a b --format csv", "tableFormat: expected parquet or delta"),
        ("skew-report a --until soon", "--until: 'soon' is no time"),
        ("trace-report a --since soon", "--since: 'soon' is no time"),
        ("schema-audit a --since soon", "--since: 'soon' is no time"),
    ],
)
def test_arguments_that_make_no_sense_are_said_before_spark_starts(arguments, text):
    failed = CliRunner().invoke(whole, ["job", *arguments.split()])
    assert text in failed.stderr
    assert "starting Spark" not in failed.stderr
    assert failed.exit_code == 2


def test_how_long_ago_stays_what_it_is_and_a_time_is_a_time():
    assert time_range(since="1h30m") == {"start": timedelta(minutes=90), "end": None}
    assert time_range(until="2026-01-31T12:00:00+01:00") == {
        "start": None,
        "end": 1_769_857_200_000,
    }


@pytest.mark.parametrize(
    ("servers", "server", "url"),
    [
        (None, None, "http://localhost:8080"),
        ("127.0.0.1:19092", None, "http://localhost:8080"),
        ("broker:9092", None, None),  # or what is on this machine would be asked about it
        ("broker:9092", "http://broker:8081", "http://broker:8081"),
    ],
)
def test_the_http_address_is_taken_from_the_server_unless_that_is_another_machine(
    servers, server, url, monkeypatch, tmp_path
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GOQUEUE_SERVER", raising=False)
    call = JobCall(
        Call(Globals(server=server)), "x",
        servers=servers, options=None, master="local", conf=None, progress=silent,
    )  # fmt: skip
    assert (call.http and call.http.url) == url
    if url is None:
        with pytest.raises(UsageError, match="--server: the broker's HTTP address is needed"):
            call.require_http("please")


def test_a_topic_that_is_missing_is_said_before_spark_starts():
    with Broker() as broker:
        broker.create_topic("payments")
        near = "there is no topic 'paymets'; did you mean payments?"
        none = "there is no topic 'paymets', and none with .dlq behind it"
        for line, said in (
            ("replay paymets b", near),
            ("archive paymets b", near),
            ("repartition paymets b 3", near),
            ("skew-report paymets", near),
            ("schema-audit paymets", near),
            ("dlq-triage paymets", none),
            ("dlq-redrive paymets", none),
        ):
            failed = CliRunner().invoke(whole, ["job", *line.split(), "-b", broker.kafka_address])
            assert failed.stderr == f"looking up topics ...\ngoqueue: {said}\n"
            assert failed.exit_code == 1


WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None  # as if it were not there
from goqueue.cli.root import app
app(["job", "skew-report", "orders"])
"""


def test_without_spark_a_job_says_what_to_install():
    failed = subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK], capture_output=True, text=True, check=False
    )
    said = "goqueue: Spark cannot run here: there is no pyspark: pip install 'goqueue[spark]'\n"
    assert failed.stderr == said
    assert (failed.stdout, failed.returncode) == ("", 1)
