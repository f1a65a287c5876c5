"""What is wrong with a configuration is said all at once, each with where it came from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from goqueue.server.config_table import MASK, ConfigError
from unit.server.config_cases import load, problems_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def pairs(text: str) -> list[tuple[str, str, str]]:
    return [pair.partition("=") for pair in re.split(r"\s?GOQUEUE_", text)[1:]]


@pytest.mark.parametrize(
    ("source", "text", "where", "what"),
    [
        (
            "flags",
            "--kafka-port 70000",
            "listeners.kafka (flag --kafka-port)",
            "found '70000', expected a whole number from 0 to 65535",
        ),
        (
            "flags",
            "--fsync sometimes",
            "storage.fsync (flag --fsync)",
            "found 'sometimes', expected one of always, interval, never",
        ),
        ("flags", "--data-dir", "--data-dir (flag)", "found nothing after it, expected a value"),
        (
            "flags",
            "--data-dri x",
            "--data-dri (flag)",
            "found an unknown name, expected a known name; the nearest is --data-dir",
        ),
        ("flags", "extra", "extra (flag)", "found an unknown name, expected a known name"),
        (
            "flags",
            "--no-tls-enabled=1",
            "--no-tls-enabled (flag)",
            "found '1', expected no value, since it says off by itself",
        ),
        (
            "flags",
            "--node-id a --node-id b",
            "broker.node_id (flag --node-id)",
            "found another value, beside flag --node-id, expected one value only",
        ),
        (
            "environment",
            "GOQUEUE_BROKER_NODEID=a b",
            "broker.node_id (environment GOQUEUE_BROKER_NODEID)",
            "found 'a b', expected a text without blanks",
        ),
        (
            "environment",
            "GOQUEUE_BROKER_NODEID=",
            "broker.node_id (environment GOQUEUE_BROKER_NODEID)",
            "found '', expected a text without blanks",
        ),
        (
            "environment",
            "GOQUEUE_BROKR_DATADIR=x",
            "GOQUEUE_BROKR_DATADIR (environment)",
            "found an unknown name, expected a known name; the nearest is GOQUEUE_BROKER_",
        ),
        (
            "environment",
            "GOQUEUE_BROKER_ID=-1",
            "broker.id (environment GOQUEUE_BROKER_ID)",
            "found '-1', expected a whole number from 0 to 2147483647",
        ),
        (
            "environment",
            "GOQUEUE_LISTENERS_HTTP=8080",
            "listeners.http (environment GOQUEUE_LISTENERS_HTTP)",
            "found '8080', expected host:port with a port from 0 to 65535",
        ),
        (
            "environment",
            "GOQUEUE_LISTENERS_HTTP=::1:8080",
            "listeners.http (environment GOQUEUE_LISTENERS_HTTP)",
            "found '::1:8080', expected host:port with a port from 0 to 65535",
        ),
        (
            "environment",
            "GOQUEUE_LISTENERS_KAFKA_ADVERTISED=host:0",
            "listeners.kafka_advertised (environment GOQUEUE_LISTENERS_KAFKA_ADVERTISED)",
            "found 'host:0', expected host:port with a port from 1 to 65535",
        ),
        (
            "environment",
            "GOQUEUE_BROKER_DATADIR=x GOQUEUE_BROKER_DATA_DIR=y",
            "broker.data_dir (environment GOQUEUE_BROKER_DATA_DIR)",
            "found another value, beside environment GOQUEUE_BROKER_DATADIR",
        ),
        (
            "file",
            "storage: {segmnetSize: 1}",
            "storage.segmnetSize (file goqueue.yaml)",
            "found an unknown name, expected a known name; the nearest is segment_size",
        ),
        (
            "file",
            "storge: {}",
            "storge (file goqueue.yaml)",
            "found an unknown section, expected a known name; the nearest is storage",
        ),
        (
            "file",
            "storage: 5",
            "storage (file goqueue.yaml)",
            "found '5', expected a mapping of its settings",
        ),
        (
            "file",
            "- a\n- b",
            "config (file goqueue.yaml)",
            "found \"['a', 'b']\", expected sections with settings",
        ),
        (
            "file",
            "a: [",
            "config (file goqueue.yaml)",
            "found while parsing a flow node expected the node content",
        ),
        (
            "file",
            "storage: {segment_size: null}",
            "storage.segment_size (file goqueue.yaml)",
            "found 'None', expected a size such as 4096, 64MB or 2GB, from 1KB to 2GB",
        ),
        (
            "file",
            "storage: {segment_size: 10 parsecs}",
            "storage.segment_size (file goqueue.yaml)",
            "found '10 parsecs', expected a size such as 4096, 64MB or 2GB, from 1KB to 2GB",
        ),
        (
            "file",
            "topics: {auto_create: perhaps}",
            "topics.auto_create (file goqueue.yaml)",
            "found 'perhaps', expected true or false",
        ),
        (
            "file",
            "topics: {partitions: true}",
            "topics.partitions (file goqueue.yaml)",
            "found 'True', expected a whole number from 1 to 10000",
        ),
        (
            "file",
            "topics: {partitions: 0}",
            "topics.partitions (file goqueue.yaml)",
            "found '0', expected a whole number from 1 to 10000",
        ),
        (
            "file",
            "topics: {retention: yesterday}",
            "topics.retention (file goqueue.yaml)",
            "found 'yesterday', expected a duration such as 500ms, 30s, 10m, 24h or 7d",
        ),
        (
            "file",
            "sasl: {mechanisms: [PLAIN, MAGIC]}",
            "sasl.mechanisms (file goqueue.yaml)",
            "found \"['PLAIN', 'MAGIC']\", expected a list of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        (
            "flags",
            "--config missing.yaml",
            "config (flag --config)",
            "found missing.yaml: No such file or directory, expected a file that can be read",
        ),
        (
            "environment",
            "GOQUEUE_CONFIG=/nowhere/x.yaml",
            "config (environment GOQUEUE_CONFIG)",
            "found /nowhere/x.yaml: No such file or directory, expected a file that can be read",
        ),
    ],
)
def test_a_problem_says_which_setting_from_where_what_was_found_and_what_is_expected(
    source: str, text: str, where: str, what: str
) -> None:
    arguments = text.split(" ") if source == "flags" else None
    environment = {"GOQUEUE_" + name: value for name, _, value in pairs(text)}
    (problem,) = problems_of(
        arguments,
        environment if source == "environment" else None,
        text if source == "file" else None,
    )
    assert str(problem).startswith(f"{where}: {what}")


@pytest.mark.parametrize(
    ("environment", "setting", "expected"),
    [
        ({"GOQUEUE_BROKER_DATADIR": "a-file"}, "broker.data_dir", "a folder, not a file"),
        ({"GOQUEUE_BROKER_DATADIR": "a-file/below"}, "broker.data_dir", "a-file is a file"),
        (
            {"GOQUEUE_LISTENERS_HTTP": "127.0.0.1:9092"},
            "listeners.http",
            "listeners.kafka has the same",
        ),
        ({"GOQUEUE_TOPICS_REPLICATION_FACTOR": "3"}, "topics.replication_factor", "1, since"),
        (
            {"GOQUEUE_GROUPS_MIN_SESSION_TIMEOUT": "1h"},
            "groups.min_session_timeout",
            "at most groups.max_session_timeout",
        ),
        (
            {"GOQUEUE_GROUPS_CONSUMER_HEARTBEAT_INTERVAL": "45s"},
            "groups.consumer_heartbeat_interval",
            "less than",
        ),
        (
            {"GOQUEUE_TLS_ENABLED": "true", "GOQUEUE_TLS_CERT_FILE": "a-file"},
            "tls.key_file",
            "a PEM file",
        ),
        (
            {
                "GOQUEUE_TLS_ENABLED": "true",
                "GOQUEUE_TLS_CERT_FILE": "a-file",
                "GOQUEUE_TLS_KEY_FILE": "gone",
            },
            "tls.key_file",
            "exists",
        ),
        (
            {
                "GOQUEUE_TLS_ENABLED": "true",
                "GOQUEUE_TLS_CERT_FILE": "a-file",
                "GOQUEUE_TLS_KEY_FILE": "a-file",
                "GOQUEUE_TLS_CLIENT_AUTH": "verify",
            },
            "tls.ca_file",
            "a PEM file",
        ),
        ({"GOQUEUE_SASL_USERS": "é" * 128 + ":secret"}, "sasl.users", "at most 255 bytes"),
    ],
)
def test_settings_that_do_not_go_together_are_a_problem(
    tmp_path: Path, environment: dict[str, str], setting: str, expected: str
) -> None:
    (tmp_path / "a-file").write_text("")
    (problem,) = problems_of(environment=environment)
    assert problem.setting == setting
    assert expected in problem.expected


def test_a_data_folder_that_cannot_be_written_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write everywhere
    (problem,) = problems_of(["--data-dir", "some/data"])
    assert problem.setting == "broker.data_dir"
    assert f"{tmp_path} cannot" in problem.expected


def test_all_problems_of_all_sources_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        load(
            ["--fsync", "sometimes", "--nonsense"],
            {"GOQUEUE_BROKER_NODEID": " ", "GOQUEUE_TLS_ENABLED": "yes"},
            "topics: {partitions: many}\nnothing: {}\n",
        )
    assert {problem.setting for problem in caught.value.problems} == {
        "storage.fsync",
        "--nonsense",
        "broker.node_id",
        "tls.cert_file",
        "tls.key_file",
        "topics.partitions",
        "nothing",
    }
    lines = str(caught.value).splitlines()
    assert lines[0] == "7 problems in the configuration:"
    assert len(lines) == 8


def test_a_setting_that_cannot_be_read_is_not_judged_by_its_default_as_well() -> None:
    (problem,) = problems_of(environment={"GOQUEUE_SASL_ENABLED": "1", "GOQUEUE_SASL_USERS": "x"})
    assert problem.setting == "sasl.users"


def test_a_password_is_never_part_of_a_problem() -> None:
    (problem,) = problems_of(environment={"GOQUEUE_SASL_USERS": "alice:secret,alice:secret"})
    assert MASK in problem.found
    assert "secret" not in str(problem)


def test_listeners_on_any_free_port_do_not_collide() -> None:
    everything = ["--kafka-port", "0", "--http-port", "0", "--grpc-port", "0"]
    assert load(everything).listeners.http.port == 0
