"""What people read about settings is made from the table, and is current."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given, strategies as st

from goqueue.server.config import SECTIONS, TABLE, Config
from goqueue.server.config_docs import effective, flag_help, kafka_view, reference
from goqueue.server.config_kinds import Address, Duration, HostPort, Size
from goqueue.server.config_load import load_config
from goqueue.server.config_node import SaslSection, TlsSection
from goqueue.server.config_table import MASK

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"


def test_the_reference_page_is_current() -> None:
    hint = "run: .venv/bin/python -m goqueue.server.config_docs > docs/reference/configuration.md"
    assert PAGE.read_text(encoding="utf-8") == reference(), hint


def test_the_example_of_the_reference_page_is_a_configuration_that_works(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", reference(), flags=re.DOTALL)
    document = yaml.safe_load(example)
    document["broker"]["data_dir"] = str(tmp_path / "data")
    file = tmp_path / "goqueue.yaml"
    file.write_text(yaml.safe_dump(document))
    config = load_config(["--config", str(file)], {})
    assert str(config.listeners.kafka_advertised) == "broker.example.com:9092"


def test_every_setting_is_in_the_reference_and_in_the_help() -> None:
    page, text = reference(), flag_help()
    for row in TABLE:
        assert f"`{row.environment}`" in page
        # Everybody can list the flags of a process: secrets have none.
        assert (f"`{row.flag}`" in page) is not row.secret
        assert (row.flag in text) is not row.secret


def test_every_default_is_a_value_that_could_have_been_written() -> None:
    assert set(SECTIONS) == {row.section for row in TABLE}
    for row in TABLE:
        if row.default not in {None, ()}:
            assert row.parse(row.render(row.default)) == row.default, row.full_name


def test_the_effective_configuration_shows_sources_and_masks_secrets(tmp_path: Path) -> None:
    environment = {"GOQUEUE_SASL_USERS": "alice:very-secret", "GOQUEUE_STORAGE_FSYNC": "never"}
    config = load_config(["--data-dir", str(tmp_path)], environment)
    rows = {row.setting: row for row in effective(config)}
    assert len(rows) == len(TABLE)
    assert rows["broker.data_dir"].value == str(tmp_path)
    assert rows["broker.data_dir"].source == "flag --data-dir"
    assert rows["storage.fsync"].value == "never"
    assert rows["storage.fsync"].source == "environment GOQUEUE_STORAGE_FSYNC"
    assert rows["topics.retention"].value == "7d"
    assert rows["topics.retention"].source == "default"
    assert rows["sasl.users"].value == MASK
    assert "very-secret" not in str(rows)


def test_a_secret_that_is_not_set_is_shown_as_such() -> None:
    rows = {row.setting: row.value for row in effective(Config())}
    assert rows["sasl.users"] == ""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("num.partitions", "3"),
        ("log.retention.ms", "604800000"),
        ("offsets.retention.minutes", "10080"),
        ("message.max.bytes", "1048588"),
        ("auto.create.topics.enable", "true"),
        ("listeners", "PLAINTEXT://127.0.0.1:9092"),
        ("log.retention.bytes", "-1"),
    ],
)
def test_kafka_sees_its_own_names_and_units(name: str, expected: str) -> None:
    assert kafka_view(Config())[name] == expected


def test_kafka_sees_how_a_listener_is_spoken_to() -> None:
    secure = Config(tls=TlsSection(enabled=True), sasl=SaslSection(enabled=True))
    assert kafka_view(secure)["listeners"] == "SASL_SSL://127.0.0.1:9092"


@given(st.integers(0, 1 << 50))
def test_a_size_is_read_back_as_it_was_written(value: int) -> None:
    kind = Size(0, 1 << 50)
    assert kind.parse(kind.render(value)) == value


@given(st.integers(0, 1 << 40))
def test_a_duration_is_read_back_as_it_was_written(value: int) -> None:
    kind = Duration(0, 1 << 40)
    assert kind.parse(kind.render(value)) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("64MB", 64 << 20),
        ("64 MiB", 64 << 20),
        ("64m", 64 << 20),
        ("10b", 10),
        ("2k", 2048),
    ],
)
def test_a_size_may_have_a_unit(text: str, expected: int) -> None:
    assert Size(0, 1 << 50).parse(text) == expected


@given(st.ip_addresses().map(str), st.integers(0, 65535))
def test_an_address_is_read_back_as_it_was_written(host: str, port: int) -> None:
    kind = HostPort()
    assert kind.parse(kind.render(Address(host, port))) == Address(host, port)
