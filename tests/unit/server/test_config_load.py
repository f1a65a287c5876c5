"""One configuration out of flags, environment, file and defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from goqueue.server.config import TABLE, Config
from goqueue.server.config_kinds import Address
from goqueue.server.config_load import load_config
from goqueue.server.config_table import ConfigError, Setting, fold
from goqueue.storage.config import Fsync
from goqueue.topics.setting_table import SETTINGS as TOPIC_SETTINGS
from goqueue.topics.settings import check_overrides
from unit.server.config_cases import load

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# --- where a value comes from


def test_nothing_given_is_the_defaults() -> None:
    config = load()
    assert config == Config()
    assert str(config.listeners.kafka) == "127.0.0.1:9092"
    assert str(config.listeners.http) == "127.0.0.1:8080"
    assert str(config.listeners.grpc) == "127.0.0.1:9000"
    assert str(config.broker.data_dir) == "data"
    assert config.broker.node_id == "node-1"
    assert config.topics.partitions == 3
    assert config.topics.retention_ms == 168 * 3_600_000
    assert config.topics.auto_create
    assert config.storage.fsync is Fsync.INTERVAL


@pytest.mark.parametrize(
    ("flags", "environment", "file", "expected", "source"),
    [
        ([], {}, None, "1s", "default"),
        ([], {}, "2s", "2s", "file goqueue.yaml"),
        (
            [],
            {"GOQUEUE_STORAGE_SYNC_INTERVAL": "3s"},
            "2s",
            "3s",
            "environment GOQUEUE_STORAGE_SYNC_INTERVAL",
        ),
        (
            ["--storage-sync-interval", "4s"],
            {"GOQUEUE_STORAGE_SYNC_INTERVAL": "3s"},
            "2s",
            "4s",
            "flag --storage-sync-interval",
        ),
        (["--storage-sync-interval=4s"], {}, "2s", "4s", "flag --storage-sync-interval"),
    ],
)
def test_a_flag_beats_the_environment_beats_the_file_beats_the_default(
    flags: list[str], environment: dict[str, str], file: str | None, expected: str, source: str
) -> None:
    text = None if file is None else f"storage:\n  sync_interval: {file}\n"
    config = load(flags, environment, text)
    (row,) = [row for row in TABLE if row.full_name == "storage.sync_interval"]
    assert row.render(config.value(row)) == expected
    assert config.source(row) == source


@pytest.mark.parametrize(
    ("name", "value", "section", "attribute", "expected"),
    [
        ("GOQUEUE_BROKER_DATADIR", "elsewhere", "broker", "data_dir", "elsewhere"),
        ("GOQUEUE_BROKER_DATA_DIR", "elsewhere", "broker", "data_dir", "elsewhere"),
        ("GOQUEUE_BROKER_NODEID", "node-9", "broker", "node_id", "node-9"),
        ("GOQUEUE_LISTENERS_HTTP", "0.0.0.0:80", "listeners", "http", "0.0.0.0:80"),
        ("GOQUEUE_LISTENERS_GRPC", ":9001", "listeners", "grpc", "0.0.0.0:9001"),
        ("GOQUEUE_LISTENERS_KAFKA", "[::1]:9092", "listeners", "kafka", "[::1]:9092"),
        ("GOQUEUE_TLS_MIN_VERSION", "1.3", "tls", "min_version", "1.3"),
        ("GOQUEUE_TLS_CLIENT_AUTH", "require-verify", "tls", "client_auth", "require-verify"),
        ("GOQUEUE_TLS_CERT_FILE", "/etc/cert.pem", "tls", "cert_file", "/etc/cert.pem"),
        ("GOQUEUE_STORAGE_FSYNC", "ALWAYS", "storage", "fsync", "always"),
        ("GOQUEUE_TOPICS_RETENTION", "-1", "topics", "retention_ms", "-1"),
        ("GOQUEUE_TOPICS_RETENTION", "36h", "topics", "retention_ms", "129600000"),
        ("GOQUEUE_LIMITS_MAX_REQUEST_SIZE", "8 MiB", "limits", "max_request_bytes", "8388608"),
        ("GOQUEUE_LOGGING_LEVEL", "debug", "logging", "level", "debug"),
    ],
)
def test_environment_variables_have_the_documented_names(
    name: str, value: str, section: str, attribute: str, expected: str
) -> None:
    config = load(environment={name: value, "GOQUEUE_INSECURE": "true"})
    assert str(getattr(getattr(config, section), attribute)) == expected


@pytest.mark.parametrize(
    ("arguments", "section", "attribute", "expected"),
    [
        (["--data-dir", "here"], "broker", "data_dir", "here"),
        (["--kafka-port", "19092"], "listeners", "kafka", "127.0.0.1:19092"),
        (["--http-port=0"], "listeners", "http", "127.0.0.1:0"),
        (["--grpc-port", "9001"], "listeners", "grpc", "127.0.0.1:9001"),
        (
            ["--kafka-port", "1", "--listeners-kafka", "0.0.0.0:2"],
            "listeners",
            "kafka",
            "0.0.0.0:1",
        ),
        (["--fsync", "always"], "storage", "fsync", "always"),
        (["--node-id", "a-5"], "broker", "node_id", "a-5"),
        (["--broker-id", "7"], "broker", "id", "7"),
        (["--no-topics-auto-create"], "topics", "auto_create", "False"),
        (["--topics-auto-create=no"], "topics", "auto_create", "False"),
        (["--metrics-partition-label"], "metrics", "partition_label", "True"),
        (["--topics-retention", "unlimited"], "topics", "retention_ms", "-1"),
        (["--log-format", "json"], "logging", "format", "json"),
    ],
)
def test_flags_have_the_documented_names(
    arguments: list[str], section: str, attribute: str, expected: str
) -> None:
    config = load([*arguments, "--insecure"])
    assert str(getattr(getattr(config, section), attribute)) == expected


def test_a_port_flag_keeps_the_host_of_the_environment() -> None:
    config = load(["--kafka-port", "7", "--insecure"], {"GOQUEUE_LISTENERS_KAFKA": "10.0.0.1:9092"})
    assert config.listeners.kafka == Address("10.0.0.1", 7)
    assert config.sources["listeners.kafka"] == "flag --kafka-port"


@pytest.mark.parametrize("key", ["segment_size", "segmentSize", "segment-size", "SegmentSize"])
def test_keys_of_the_file_may_be_written_as_one_likes(key: str) -> None:
    assert load(file=f"storage: {{{key}: 1MB}}").storage.segment_bytes == 1 << 20


def test_the_environment_can_name_the_file_and_a_flag_wins_over_it(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("broker: {node_id: one-1}")
    (tmp_path / "two.yaml").write_text("broker: {node_id: two-2}")
    environment = {"GOQUEUE_CONFIG": str(tmp_path / "one.yaml")}
    assert load(environment=environment).broker.node_id == "one-1"
    assert load(["--config", "two.yaml"], environment).broker.node_id == "two-2"


def test_an_empty_file_and_an_empty_section_are_fine() -> None:
    assert load(file="") == load(file="broker:\n") == Config()


def test_users_are_a_mapping_in_the_file_and_pairs_elsewhere() -> None:
    expected = (("alice", "a:b"), ("bob", "c"))
    assert load(file="sasl:\n  users: {alice: 'a:b', bob: c}\n").sasl.users == expected
    assert load(environment={"GOQUEUE_SASL_USERS": "alice:a:b,bob:c"}).sasl.users == expected


# --- what follows from a configuration


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, 1),
        ({"GOQUEUE_BROKER_NODEID": "goqueue-0"}, 0),
        ({"GOQUEUE_BROKER_NODEID": "broker12"}, 12),
        ({"GOQUEUE_BROKER_NODEID": "alpha"}, 1),
        ({"GOQUEUE_BROKER_NODEID": "node-3", "GOQUEUE_BROKER_ID": "0"}, 0),
    ],
)
def test_the_number_of_a_node_is_given_or_the_end_of_its_name(
    environment: dict[str, str], expected: int
) -> None:
    assert load(environment=environment).broker_id == expected


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "127.0.0.1:5555"),
        ({"GOQUEUE_LISTENERS_KAFKA_ADVERTISED": "kafka.example.com:443"}, "kafka.example.com:443"),
        ({"GOQUEUE_LISTENERS_KAFKA": "0.0.0.0:0"}, "this-machine:5555"),
    ],
)
def test_clients_are_told_an_address_that_they_can_reach(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "this-machine")
    config = load(["--insecure"], environment)
    assert str(config.advertised_kafka(5555)) == expected


def test_the_defaults_for_topics_are_settings_that_topics_have() -> None:
    defaults = load(["--fsync", "always", "--topics-retention", "1h"]).topic_defaults()
    check_overrides(defaults)
    assert defaults["goqueue.fsync"] == "always"
    assert defaults["retention.ms"] == "3600000"


def test_without_a_configuration_topics_keep_their_own_defaults() -> None:
    defaults = Config().topic_defaults()
    assert defaults == {name: TOPIC_SETTINGS[name].default for name in defaults}
    assert len(defaults) == 9


OWN_NAMES = {"GOQUEUE_API_ROOT_KEY", "GOQUEUE_TRUSTED_PROXIES", "GOQUEUE_INSECURE"}


def test_no_two_settings_share_a_name() -> None:
    def unique(names: list[Any]) -> bool:
        return len(set(names)) == len(names)

    assert unique([row.flag for row in TABLE] + [r.port_flag for r in TABLE if r.port_flag])
    assert unique([fold(row.environment) for row in TABLE])
    assert unique([row.kafka for row in TABLE if row.kafka])
    for row in TABLE:
        assert fold(row.environment) == fold(f"GOQUEUE_{row.full_name}") or (
            row.environment in OWN_NAMES
        )


@pytest.mark.parametrize("row", [row for row in TABLE if row.secret], ids=lambda row: row.name)
def test_a_secret_is_refused_as_a_flag_and_not_repeated(row: Setting) -> None:
    for arguments in ([row.flag, "hush-hush"], [f"{row.flag}=hush-hush"], [row.flag]):
        with pytest.raises(ConfigError) as refused:
            load_config(arguments, {})
        assert "list of processes" in str(refused.value)
        assert row.environment in str(refused.value)
        assert "hush" not in str(refused.value)
