"""Which server a command talks to, who says so, and where that is kept."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st
from typer.testing import CliRunner

import goqueue
from goqueue.cli import contexts
from goqueue.cli.contexts import Context, Contexts, parse_timeout, resolve
from goqueue.cli.errors import CliError, UsageError
from goqueue.cli.root import app
from goqueue.cli.spark import job_command
from goqueue.records import checksum
from goqueue.server.config import TABLE
from goqueue.server.config_load import load_config
from goqueue.server.config_sources import CLIENT_ENVIRONMENT
from goqueue.worker.app import ADDRESS_VARIABLE

FILE = Contexts(
    "here",
    {
        "here": Context("http://here", "key-here", 5.0),
        "there": Context("https://there:8443/base"),
    },
)
SERVER = {contexts.SERVER_VARIABLE: "http://variable"}
CONTEXT = {contexts.CONTEXT_VARIABLE: "there"}


@pytest.mark.parametrize(
    ("flags", "environment", "server", "source"),
    [
        ({}, {}, "http://here", "context here"),
        ({}, CONTEXT, "https://there:8443/base", "environment GOQUEUE_CONTEXT"),
        ({}, CONTEXT | SERVER, "http://variable", "environment GOQUEUE_SERVER"),
        ({"context": "there"}, SERVER, "https://there:8443/base", "flag --context"),
        ({"server": "http://flag/", "context": "here"}, SERVER, "http://flag", "flag --server"),
        ({"server": "host:99"}, {}, "http://host:99", "flag --server"),
    ],
)
def test_flags_come_before_the_environment_and_that_before_the_file(
    flags: dict[str, Any], environment: dict[str, str], server: str, source: str
) -> None:
    target = resolve(FILE, environment, **flags)
    assert target.server == server
    assert source in target.source


@pytest.mark.parametrize(
    ("flags", "environment", "key"),
    [
        ({}, {}, "key-here"),
        ({}, {contexts.KEY_VARIABLE: "key-variable"}, "key-variable"),
        ({"context": "here"}, {contexts.KEY_VARIABLE: "key-variable"}, "key-here"),
        ({"server": "http://elsewhere"}, {}, None),
        ({"server": "http://elsewhere", "context": "here"}, {}, None),
        ({}, SERVER, None),
    ],
)
def test_a_contexts_key_goes_to_no_other_server(
    flags: dict[str, Any], environment: dict[str, str], key: str | None
) -> None:
    target = resolve(FILE, environment, **flags)
    assert target.api_key == key
    assert "key-" not in repr(target) + repr(FILE)


@pytest.mark.parametrize(
    ("flags", "environment", "timeout_s"),
    [
        ({"timeout_s": 1.0}, {contexts.TIMEOUT_VARIABLE: "2"}, 1.0),
        ({}, {contexts.TIMEOUT_VARIABLE: "2s"}, 2.0),
        ({}, {}, 5.0),
        ({"context": "there"}, {}, contexts.DEFAULT_TIMEOUT_S),
    ],
)
def test_a_timeout_follows_the_same_rule(
    flags: dict[str, Any], environment: dict[str, str], timeout_s: float
) -> None:
    assert resolve(FILE, environment, **flags).timeout_s == timeout_s


@pytest.mark.parametrize(
    ("text", "seconds"), [("30", 30), ("30s", 30), ("250ms", 0.25), ("2m", 120), ("0.5", 0.5)]
)
def test_timeouts_are_seconds_unless_they_say_otherwise(text: str, seconds: float) -> None:
    assert parse_timeout(text, "test") == seconds


@pytest.mark.parametrize("text", ["", "0", "-1", "never", "2h", "1e9", "30 s", "nan", "inf"])
def test_what_is_no_timeout_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no timeout"):
        parse_timeout(text, "test")


@pytest.mark.parametrize(
    "server", ["", "ftp://x", "http://", "http://x:port", "http://x:0", "http://x:99999", "://"]
)
def test_what_is_no_server_is_refused_with_an_example(server: str) -> None:
    with pytest.raises(UsageError, match=r"flag --server.*http://localhost:8080"):
        resolve(FILE, {}, server=server)


def test_a_cluster_is_several_servers() -> None:
    target = resolve(Contexts(), {}, server="h1:8080, https://h2:8443/,h3:8080")
    assert target.servers == ["http://h1:8080", "https://h2:8443", "http://h3:8080"]
    with pytest.raises(UsageError, match="is no server"):
        resolve(Contexts(), {}, server="h1:8080,,h3:8080")


def test_without_a_file_there_is_one_context_for_this_machine(tmp_path: Path) -> None:
    target = resolve(contexts.load(tmp_path / "none.yaml"), {})
    assert (target.server, target.source) == ("http://localhost:8080", "context local")


names = st.text("abcXYZ0129._-@", min_size=1, max_size=20)


@given(
    entries=st.dictionaries(
        names,
        st.builds(
            Context,
            st.sampled_from(["http://a", "https://b:1/c"]),
            st.none() | st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1),
            st.none() | st.sampled_from([0.5, 30.0, 3600.0]),
        ),
        min_size=1,
    )
)
def test_what_is_saved_is_what_is_loaded(
    entries: dict[str, Context], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("home") / "config.yaml"
    saved = Contexts(next(iter(entries)), entries)
    contexts.save(path, saved)
    assert contexts.load(path) == saved
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "text",
    ["[", "- a", "current-context: x", "contexts: 3", "contexts: {a: 1}\ncurrent-context: a",
     "contexts: {a: {timeout: never}}\ncurrent-context: a"],
)  # fmt: skip
def test_a_file_that_makes_no_sense_is_named_and_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(CliError, match=r"config\.yaml is invalid"):
        contexts.load(path)
    assert path.read_text() == text


# --- The commands --------------------------------------------------------------------------------


def run(*arguments: str, code: int = 0, **options: Any) -> str:
    result = CliRunner().invoke(app, ["config", *arguments], **options)
    assert result.exit_code == code, result.output
    return result.output


def test_contexts_are_added_chosen_shown_and_deleted(home: Path) -> None:
    run("set-context", "prod", "--server", "https://broker:8443", "--timeout", "5")
    run("set-context", "dev", "-s", "localhost:9", "--api-key", "-", input="hush\n")
    path = home / ".goqueue" / "config.yaml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    document = yaml.safe_load(path.read_text())
    assert document["current-context"] == "prod", "the first one is the current one"
    assert document["contexts"]["dev"] == {"server": "http://localhost:9", "api-key": "hush"}
    run("use-context", "dev")
    rows = yaml.safe_load(run("get-contexts", "-o", "yaml"))
    assert {row["name"]: row["current"] for row in rows} == {
        "local": False,
        "prod": False,
        "dev": True,
    }
    for form in ("table", "json", "yaml"):
        shown = run("view", "-o", form)
        assert "https://broker:8443" in shown
        assert "hush" not in shown
    assert "current context" in run("delete-context", "dev", "-f", code=1)
    assert "nothing was changed" in run("delete-context", "prod", code=1, input="no\n")
    run("delete-context", "prod", input="yes\n")
    assert "there is no context 'prod'" in run("use-context", "prod", code=2)


def test_changing_one_thing_of_a_context_keeps_the_others_and_closes_the_file(home: Path) -> None:
    path = home / ".goqueue" / "config.yaml"
    run("set-context", "local", "--api-key", "-", input="k\n")
    path.chmod(0o644)
    run("set-context", "local", "--timeout", "3s")
    assert contexts.load(path).named("local") == Context("http://localhost:8080", "k", 3.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["set-context", "x"], "nothing to set"),
        (["set-context", "../x", "--server", "a"], "cannot be a context's name"),
        (["set-context", "x", "--server", "ftp://a"], "is no server"),
        (["set-context", "x", "--timeout", "soon"], "is no timeout"),
        (["set-context", "x", "--api-key", "gq_0"], "in the list of processes"),
        (["use-context", "x"], "there are: local"),
        (["delete-context", "x", "-f"], "there are: local"),
        (["effective", "--data-dri", "x"], "nearest is --data-dir"),
    ],
)
def test_bad_input_changes_nothing(home: Path, arguments: list[str], said: str) -> None:
    assert said in run(*arguments, code=2)
    assert not (home / ".goqueue").exists()


def test_a_home_that_cannot_be_written_is_reported(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "file").write_text("")
    monkeypatch.setenv("HOME", str(home / "file"))
    assert "cannot be read" in run("view", code=1)


def test_the_settings_of_a_server_are_shown_with_their_sources(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOQUEUE_STORAGE_FSYNC", "always")
    rows = yaml.safe_load(
        run("effective", "--kafka-port", "1234", "--changed", "-o", "yaml", "--data-dir", str(home))
    )
    assert {row["setting"]: (row["value"], row["source"]) for row in rows} == {
        "broker.data_dir": (str(home), "flag --data-dir"),
        "listeners.kafka": ("127.0.0.1:1234", "flag --kafka-port"),
        "storage.fsync": ("always", "environment GOQUEUE_STORAGE_FSYNC"),
    }
    assert len(yaml.safe_load(run("effective", "-o", "json"))) > 20


def test_a_server_starts_with_the_variables_of_the_other_commands() -> None:
    variables = {
        contexts.SERVER_VARIABLE,
        contexts.CONTEXT_VARIABLE,
        contexts.KEY_VARIABLE,
        contexts.TIMEOUT_VARIABLE,
        job_command.SERVERS_VARIABLE,
        checksum.VARIABLE,
        ADDRESS_VARIABLE,
        "GOQUEUE_BACKUP_PASSPHRASE",
        "GOQUEUE_BENCH_KAFKA",
        "GOQUEUE_SERVERS",
    }
    assert variables == CLIENT_ENVIRONMENT
    config = load_config([], dict.fromkeys(variables, "anything"))
    assert config.sources == {}


def test_every_variable_that_the_product_names_is_a_setting_or_known_to_the_server() -> None:
    """Documented for one command, refused by another: a server would not start beside it."""
    source = Path(goqueue.__file__).parent
    named = {
        name
        for path in source.rglob("*.py")
        if path.name != "config_sources.py"
        for name in re.findall(r'"(GOQUEUE_[A-Z_]+[A-Z])"', path.read_text())
    }
    settings = {row.environment for row in TABLE}
    assert named - settings == CLIENT_ENVIRONMENT
