"""The parts of a run that need no query: reasons, progress, order, functions and the reporter."""

from __future__ import annotations

import inspect
import json
import os
import re
import socket
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors.exceptions import base as sparks_errors
from pyspark.logger import PySparkLogger

from goqueue.client.link.addresses import Address
from goqueue.model.topic_partition import TopicPartition
from goqueue.spark.kafka.settings import LinkSettings
from goqueue.spark.monitoring.failures import reason_of, said_once
from goqueue.spark.monitoring.progress import QueryProgress, RunProgress
from goqueue.spark.monitoring.query_progress import Watched
from goqueue.spark.monitoring.reporting import Reporter
from goqueue.spark.monitoring.tracking import ProgressListener
from goqueue.spark.pipelines.execution import running
from goqueue.spark.pipelines.execution.only_run import only_run
from goqueue.spark.pipelines.execution.rules import check_rules
from goqueue.spark.pipelines.execution.sessions import settings_of
from goqueue.spark.pipelines.execution.topic_tables import source_options
from goqueue.spark.pipelines.functions import FunctionError, find_function
from goqueue.spark.pipelines.graph import in_order, topics_behind
from goqueue.spark.pipelines.model import (
    JoinStep,
    Otherwise,
    Pipeline,
    PipelineError,
    PythonStep,
    Rule,
    RulesStep,
    SqlStep,
    TopicSource,
)

NOWHERE = LinkSettings((Address("127.0.0.1", 9),), patience_s=0.1)

# --- Reasons -------------------------------------------------------------------------------------

IN_A_TASK = """\
[STREAM_FAILED] Query [id = 1f, runId = 2e] terminated with exception: Job aborted due to stage \
failure: Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task 0.0 in stage 3.0: \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/worker.py", line 1, in main
    process()
goqueue.spark.errors.DataLossError: offsets 3 to 9 of orders-0 are gone

	at org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:581)
Driver stacktrace: SQLSTATE: XXKST
=== Streaming Query ===
Identifier: shop [id = 1f]"""
IN_A_FUNCTION = """\
[STREAM_FAILED] Query [id = 1f] terminated with exception: Job aborted: PythonException: \
Traceback (most recent call last):
  File "/x/shop.py", line 2, in loud
    return name.upper()
AttributeError: 'NoneType' object has no attribute 'upper'

	at org.apache.spark.Foo.bar(Foo.scala:1) SQLSTATE: XXKST"""
BY_A_RULE = """\
[STREAM_FAILED] Query [id = 1f] terminated with exception: Job aborted due to stage failure: \
Task 0 failed: org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] rule big of \
checked is broken (expected a > 1) by orders-0 at offset 7: {"a":1} SQLSTATE: P0001
	at org.apache.spark.X.y(X.scala)"""
BY_SPARK = """\
[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `idd` cannot be resolved. Did you mean \
`id`? SQLSTATE: 42703; line 1 pos 7;
'Project ['idd]
+- SubqueryAlias items"""
NOT_WRAPPED = """\
An error occurred while calling o68.load.
: org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find it. \
SQLSTATE: 42K02
	at org.apache.spark.sql.Foo.bar(Foo.scala)
Caused by: java.lang.ClassNotFoundException: goqueue.DefaultSource
	... 22 more"""
SPARK_GONE = """\
An error occurred while calling o89.status.
: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.
This stopped SparkContext was created at:

org.apache.spark.api.java.JavaSparkContext.<init>(JavaSparkContext.scala:59)
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (IN_A_TASK, "offsets 3 to 9 of orders-0 are gone"),
        (IN_A_FUNCTION, "AttributeError: 'NoneType' object has no attribute 'upper'"),
        (
            BY_A_RULE,
            'rule big of checked is broken (expected a > 1) by orders-0 at offset 7: {"a":1}',
        ),
        (BY_SPARK, "A column with name `idd` cannot be resolved. Did you mean `id`?"),
        (NOT_WRAPPED, "Failed to find it."),
        (SPARK_GONE, "Cannot call methods on a stopped SparkContext."),
        ("it is simple", "it is simple"),
        ("x" * 2000, "x" * 599 + "…"),
        ("", "unknown error"),
    ],
)
def test_a_reason_is_one_sentence_without_the_noise_around_it(text, reason):
    assert reason_of(text) == reason


def test_an_error_without_a_text_is_called_by_its_name():
    assert reason_of(KeyError()) == "KeyError"


def test_a_pipeline_runs_once_at_a_time(tmp_path):
    pipeline = Pipeline(name="p", checkpoints=str(tmp_path))
    with only_run(pipeline):
        with pytest.raises(PipelineError, match=rf"p runs already, in process {os.getpid()} on "):
            running.run_pipeline(pipeline)
        with only_run(replace(pipeline, name="q")):
            pass
    with only_run(pipeline), only_run(replace(pipeline, checkpoints="s3a://bucket")):
        assert {each.name for each in tmp_path.iterdir()} == {"p", "q"}


def test_an_error_that_is_raised_is_not_logged_by_spark_as_well():
    names = set(re.findall(r'getLogger\("(\w+)"\)', inspect.getsource(sparks_errors)))
    assert "DataFrameQueryContextLogger" in names
    loggers = [PySparkLogger.getLogger(each) for each in names]
    with said_once():
        assert all(each.disabled for each in loggers)
    assert not any(each.disabled for each in loggers)


# --- Progress ------------------------------------------------------------------------------------


def offsets(*numbers):
    places = {str(number): offset for number, offset in enumerate(numbers)}
    return {"orders": {"id": "x", "offsets": places}}


def said(at, rows, end, latest, **more):
    source = {"numInputRows": rows, "endOffset": end, "latestOffset": latest}
    return {"timestamp": f"2026-01-01T00:00:0{at}.000Z", "sources": [source], "batchId": at} | more


class Query:
    """What Spark's query objects say, put there by a test."""

    def __init__(self, *progress):
        self.recentProgress = [SimpleNamespace(json=json.dumps(each)) for each in progress]
        self.isActive = True
        self.failure: Exception | None = None
        self.status: dict[str, str] = {}

    def exception(self):
        return self.failure

    def stop(self):
        self.isActive = False


def watched(query, *, is_ending=False):
    return Watched(QueryProgress(name="q", sink="topic x"), query=query, is_ending=is_ending)


def test_rows_are_counted_once_however_often_spark_is_asked():
    first = said(1, 10, offsets(4, 6), offsets(9, 6))
    query = Query(first)
    seen = watched(query)
    seen.look()
    seen.look()
    assert (seen.progress.rows, seen.progress.lag) == (10, 5)
    query.recentProgress = Query(
        first,
        said(
            2,
            5,
            offsets(9, 6),
            offsets(9, 6),
            durationMs={"triggerExecution": 120},
            processedRowsPerSecond="Infinity",
            eventTime={"watermark": "2026-03-01T12:28:00.000Z"},
            stateOperators=[{"numRowsTotal": 3, "numRowsDroppedByWatermark": 2}],
        ),
    ).recentProgress
    seen.look()
    now = seen.progress
    assert (now.rows, now.lag, now.batch_id, now.batch_ms) == (15, 0, 2, 120)
    assert (now.state_rows, now.late_rows, now.watermark) == (3, 2, 1772368080000)
    assert now.rows_per_second is None
    assert seen.offsets == {("orders", 0): 9, ("orders", 1): 6}


def test_other_sources_have_no_lag_and_a_topic_that_is_read_twice_the_larger_one():
    seen = watched(Query(said(1, 3, 7, 9)))
    seen.look()
    assert (seen.progress.lag, seen.progress.rows, seen.offsets) == (None, 3, {})
    twice = said(1, 3, offsets(5), offsets(9))
    twice["sources"] += said(1, 3, offsets(2), offsets(9))["sources"]
    seen = watched(Query(twice))
    seen.look()
    assert (seen.progress.lag, seen.offsets) == (7, {("orders", 0): 2})


def test_how_a_query_ended():
    query = Query()
    seen, ending = watched(query), watched(query, is_ending=True)
    query.isActive = False
    seen.look()
    ending.look()
    assert (seen.progress.state, ending.progress.state) == ("stopped", "finished")
    query.failure = ValueError("broken")
    ending.look()
    assert (ending.progress.state, ending.progress.error) == ("failed", "broken")


def test_a_query_that_is_stopped_before_its_end_is_not_finished():
    cut_off, done = watched(Query(), is_ending=True), watched(Query(), is_ending=True)
    done.query.isActive = False
    for each in (cut_off, done):
        each.stop()
        each.look()
    assert (cut_off.progress.state, done.progress.state) == ("stopped", "finished")


# --- Order, options, functions -------------------------------------------------------------------


def test_steps_are_built_after_what_they_are_made_of():
    pipeline = Pipeline(
        name="p",
        sources=(TopicSource(name="a", topics=("ta",)), TopicSource(name="b", topics=("tb",))),
        steps=(
            JoinStep(name="d", left="c", right="B", on="x"),
            SqlStep(name="e", sql="SELECT * FROM d -- and not a"),
            PythonStep(name="c", inputs=("a",), function="x:y"),
        ),
    )
    assert [each.name for each in in_order(pipeline)] == ["c", "d", "e"]
    assert topics_behind(pipeline, "e") == ("ta",)
    ring = (SqlStep(name="x", sql="SELECT * FROM y"), SqlStep(name="y", sql="SELECT * FROM x"))
    with pytest.raises(PipelineError, match="form a cycle: x, y"):
        in_order(Pipeline(name="p", steps=ring))


@pytest.mark.parametrize(
    ("starting", "option"),
    [
        (None, {"startingOffsets": "earliest"}),
        ("Latest", {"startingOffsets": "latest"}),
        ('{"t": {"0": 5}}', {"startingOffsets": '{"t": {"0": 5}}'}),
        (
            "2026-01-31T12:00:00Z",
            {
                "startingTimestamp": "2026-01-31T12:00:00Z",
                "startingOffsetsByTimestampStrategy": "latest",
            },
        ),
    ],
)
def test_a_source_says_where_to_begin(starting, option):
    pipeline = Pipeline(name="p", servers="h:1", connection={"kafka.sasl.username": "u"})
    found = source_options(pipeline, TopicSource(name="t", topics=("t", "u"), starting=starting))
    shared = {"bootstrap.servers": "h:1", "kafka.sasl.username": "u", "subscribe": "t,u"}
    assert found == shared | option


def test_what_a_pipeline_says_of_spark_goes_before_what_suits_one_machine():
    here = settings_of(Pipeline(name="p", conf={"spark.ui.enabled": "true"}))
    assert (here["spark.ui.enabled"], here["spark.sql.session.timeZone"]) == ("true", "UTC")
    assert "spark.sql.shuffle.partitions" in here
    there = settings_of(Pipeline(name="p", master="spark://host:7077"))
    assert there == {"spark.sql.session.timeZone": "UTC"}


def test_a_function_is_found_in_a_file_or_module_or_is_missed(tmp_path):
    (tmp_path / "shop.py").write_text("def good(x): return x\n")
    (tmp_path / "bad.py").write_text("1 / 0\n")
    beside = str(tmp_path / "pipeline.yaml")
    assert find_function("shop.py:good", beside)(3) == 3
    assert find_function("json:dumps", None) is json.dumps
    assert find_function(len, None) is len
    for where, problem in (
        ("shop.py:bad", "there is no function 'bad' in shop.py"),
        ("none.py:x", "there is no file"),
        ("bad.py:x", "ZeroDivisionError"),
        ("no_such_module:x", "cannot be imported"),
        ("shop.py", "names no function"),
    ):
        with pytest.raises(FunctionError, match=problem):
            find_function(where, beside)


# --- Rules ---------------------------------------------------------------------------------------


def test_a_row_goes_where_the_severest_of_its_rules_says(spark):
    step = RulesStep(
        name="s",
        input="t",
        rules=(
            Rule(name="drops", expect="a < 10", otherwise=Otherwise.DROP),
            Rule(name="buries", expect="a < 20 OR b", otherwise=Otherwise.DEAD_LETTER),
            Rule(name="fails", expect="a < 99", otherwise=Otherwise.FAIL),
        ),
    )
    rows = [(1, True), (10, True), (20, True), (20, None), (20, False), (None, True)]
    frame = spark.createDataFrame(rows, "a int, b boolean").where("a IS NOT NULL")
    checked = check_rules(frame, step)
    assert [tuple(each) for each in checked.good.collect()] == [(1, True)]
    letters = [(each.a, each.b, each["__broken"]) for each in checked.letters.collect()]
    assert letters == [
        (20, None, ["drops", "buries"]),
        (20, False, ["drops", "buries"]),
    ]
    fatal = check_rules(spark.createDataFrame([(99, True)], "a int, b boolean"), step)
    with pytest.raises(Exception, match="USER_RAISED") as caught:
        fatal.good.collect()
    assert reason_of(caught.value) == (
        'rule fails of s is broken (expected a < 99) by a row: {"a":99,"b":true}'
    )
    assert fatal.letters.collect() == []


# --- The reporter --------------------------------------------------------------------------------


class Takings(HTTPServer):
    """What was taken, and where."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Taker)
        self.taken: list[tuple[str, Any]] = []
        self.address = f"http://127.0.0.1:{self.server_port}"


class Taker(BaseHTTPRequestHandler):
    """Takes reports."""

    server: Takings

    def do_PUT(self):
        size = int(self.headers["Content-Length"])
        self.server.taken.append((self.path, json.loads(self.rfile.read(size))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def taker():
    server = Takings()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_newest_state_is_reported_and_the_last_one_always(taker):
    reporter = Reporter(NOWHERE, taker.address)
    for number in range(500):
        query = QueryProgress(name="q", sink="s", rows=number)
        reporter.tell(RunProgress(name="a b", state="running", queries=(query,)))
    reporter.tell(RunProgress(name="a b", state="finished"))
    reporter.close()  # which waits for a few seconds only
    deadline = time.monotonic() + 90
    while not taker.taken or taker.taken[-1][1]["state"] != "finished":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert taker.taken[-1][0] == "/pipelines/a%20b"
    assert len(taker.taken) <= 10  # two, and one more for every three seconds of a slow machine


def test_a_broker_that_is_away_holds_up_no_run(caplog):
    reporter = Reporter(NOWHERE, "http://127.0.0.1:9")
    started = time.monotonic()
    for number in range(100):
        offsets_now = {"g": {TopicPartition("t", 0): number}}
        reporter.tell(RunProgress(name="p", state="running"), offsets_now)
    assert time.monotonic() - started < 30  # and not three seconds for each
    reporter.close()
    assert time.monotonic() - started < 60
    assert len([each for each in caplog.records if each.levelname == "WARNING"]) == 1


def test_somebody_who_speaks_no_http_does_not_end_the_reports(caplog):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer():
            while (connection := listening.accept()[0]).recv(1 << 16):
                connection.sendall(b"you have reached another service\r\n")
                connection.close()
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        port = listening.getsockname()[1]
        reporter = Reporter(NOWHERE, f"http://127.0.0.1:{port}")
        reporter.tell(RunProgress(name="p", state="running"))
        reporter.close()
        socket.create_connection(("127.0.0.1", port)).close()  # says nothing, which ends the other
        thread.join()
    (said,) = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert said.startswith("the report was not delivered")


def test_queries_without_a_pipeline_are_reported_by_the_listener(taker):
    listener: Any = ProgressListener(NOWHERE, "spark-{}".format, taker.address)
    about = SimpleNamespace(id="1", runId="2", name="copy")
    listener.onQueryStarted(about)
    text = json.dumps(said(1, 5, offsets(5), offsets(9)) | {"sink": {"description": "noop"}})
    listener.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(runId="2", json=text)))
    listener.onQueryTerminated(SimpleNamespace(runId="2", exception=BY_A_RULE))
    deadline = time.monotonic() + 90
    while not (taker.taken and taker.taken[-1][1]["state"] == "failed"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    path, last = taker.taken[-1]
    assert path == "/pipelines/copy"
    assert last["error"].startswith("rule big of checked is broken")
    (query,) = last["queries"]
    assert (query["rows"], query["lag"], query["sources"]) == (5, 4, ["orders"])
    assert (query["sink"], query["group"], query["state"]) == ("noop", "spark-copy", "failed")


# --- Starting again ------------------------------------------------------------------------------


def late_query():
    query = Query()
    query.isActive = False
    query.failure = ValueError("Python worker failed to connect back. SQLSTATE: XXKST")
    query.status = {"message": "Stopped"}
    return query


def test_a_query_whose_process_was_late_is_started_again_and_no_other(monkeypatch):
    """Spark itself is what is put in place here: it cannot be made slow at will."""
    done = late_query()
    done.failure = None
    coming = [late_query(), done]
    monkeypatch.setattr(running, "start", lambda *_, **__: coming.pop(0))
    monkeypatch.setattr(running, "active", lambda _: nullcontext())
    run = running._Run(
        Pipeline(name="p", servers="127.0.0.1:9"), None, threading.Event(), available_now=True
    )
    try:
        nothing: Any = object()
        run.spark, run.outputs["q"] = nothing, nothing
        run.watched.append(watched(late_query(), is_ending=True))
        assert run.look()  # the second was late, too
        assert not run.look()
        assert run.end().state == "finished"
        assert run.restarts == {"q": 2}
        broken = late_query()
        broken.failure = ValueError("something else")
        run.watched[0] = watched(broken)
        assert not run.look()
        assert run.end().last.error == "q (topic x) failed: something else"
    finally:
        run.close()
