"""A pipeline out of a YAML file, with everything that is wrong with the file, line by line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from goqueue.spark.options.link_options import parse_servers
from goqueue.spark.pipelines.files import yaml_sinks, yaml_sources, yaml_steps
from goqueue.spark.pipelines.files.fields import Fields, Notes
from goqueue.spark.pipelines.files.loaded import Loaded
from goqueue.spark.pipelines.files.yaml_sinks import read_trigger
from goqueue.spark.pipelines.model import Pipeline, Problem, Trigger
from goqueue.spark.pipelines.naming import DEFAULT_CHECKPOINTS
from goqueue.spark.pipelines.paths import beside
from goqueue.spark.pipelines.yaml_nodes import Entries, Node, Scalar, UnreadableError, parse_yaml
from goqueue.spark.wording import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


T = TypeVar("T")
_KEYS: Final = ("name", "broker", "checkpoints", "trigger", "spark", "sources", "steps", "sinks")
_A_PIPELINE: Final = "a pipeline: a mapping with name, sources and sinks"
_TABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_DEFAULT_SERVERS: Final = "127.0.0.1:9092"
_TABLE_CHARACTERS: Final = "letters, digits and '_', at most 100, and no digit first"
_NAME_CHARACTERS: Final = "letters, digits, '.', '_' and '-', at most 100"


def read_yaml(data: bytes, file: str, environment: Mapping[str, str]) -> Loaded:
    """What a file says, and what is wrong with how it says it.

    Whether tables and sinks fit together is another question: see `checking`.
    """
    try:
        node = parse_yaml(data)
    except UnreadableError as error:
        return Loaded(None, (error.problem,))
    if isinstance(node, Scalar) and node.is_null:
        return Loaded(None, (Problem(f"the file is empty: expected {_A_PIPELINE}", 1, 1),))
    return read_tree(node, file, environment)


def read_tree(node: Node, file: str, environment: Mapping[str, str]) -> Loaded:
    """The same for what was parsed already."""
    notes = Notes(environment)
    fields = Fields(notes, node, "", _A_PIPELINE)
    if not isinstance(node, Entries):
        return Loaded(None, tuple(notes.problems))
    return _Reader(fields, file).loaded()


class _Reader:
    def __init__(self, fields: Fields, file: str) -> None:
        self._fields: Final = fields
        self._notes: Final = fields.notes
        self._file: Final = file
        self._folder: Final = str(Path(file).absolute().parent)
        self._left_out: set[str] = set()

    def loaded(self) -> Loaded:
        self._fields.only(_KEYS)
        pipeline = self._pipeline()
        problems = sorted(self._notes.problems, key=lambda each: (each.line or 0, each.column or 0))
        left_out = frozenset(self._left_out)
        return Loaded(pipeline, tuple(problems), self._notes.places, left_out)

    def _pipeline(self) -> Pipeline:
        fields = self._fields
        servers, http, connection = self._broker()
        master, conf = self._spark()
        return Pipeline(
            name=self._name(),
            servers=servers,
            http=http,
            checkpoints=beside(fields.text("checkpoints") or DEFAULT_CHECKPOINTS, self._folder),
            trigger=read_trigger(fields) or Trigger(),
            master=master,
            conf=conf,
            connection=connection,
            sources=self._parts("sources", yaml_sources.EXPECTED, yaml_sources.read_source),
            steps=self._parts("steps", yaml_steps.EXPECTED, yaml_steps.read_step),
            sinks=self._parts("sinks", yaml_sinks.EXPECTED, yaml_sinks.read_sink, _NAME),
            file=self._file,
        )

    def _name(self) -> str:
        name = self._fields.text("name", required="what the pipeline is called, such as orders")
        if name is not None and not _NAME.fullmatch(name):
            self._fields.problem(
                f"{shown(name)} cannot be a name: expected {_NAME_CHARACTERS}", "name"
            )
        return name or ""

    def _broker(self) -> tuple[str, str | None, dict[str, str]]:
        fields = self._fields
        servers: str | None
        if fields.given("broker") and isinstance(fields.node("broker"), Scalar):
            servers = fields.text("broker")
            self._check_servers(fields, "broker", servers)
            return servers or _DEFAULT_SERVERS, None, {}
        inner = fields.inner("broker", "a broker such as {servers: 127.0.0.1:9092}")
        if inner is None:
            return _DEFAULT_SERVERS, None, {}
        inner.only(("servers", "http", "options"))
        servers, http = ",".join(inner.texts("servers")) or None, inner.text("http")
        self._check_servers(inner, "servers", servers)
        if http is not None and not re.match(r"https?://[^/\s]", http):
            inner.problem(
                f"{shown(http)} is no address of HTTP: expected http://127.0.0.1:8080", "http"
            )
        options = inner.options(
            "options", "options of the connection, as in {kafka.sasl.username: me}"
        )
        return servers or _DEFAULT_SERVERS, http, options

    def _check_servers(self, fields: Fields, name: str, servers: str | None) -> None:
        try:
            if servers is not None:
                parse_servers(servers)
        except ValueError as error:
            fields.problem(str(error), name)

    def _spark(self) -> tuple[str | None, dict[str, str]]:
        inner = self._fields.inner("spark", "where Spark runs, as in {master: local[*]}")
        if inner is None:
            return None, {}
        inner.only(("master", "conf"))
        return inner.text("master"), inner.options("conf", "settings of Spark by their names")

    # --- The parts -------------------------------------------------------------------------------

    def _parts(
        self,
        kind: str,
        expected: str,
        read: Callable[[Fields, str, str], T | None],
        names: re.Pattern[str] = _TABLE_NAME,
    ) -> tuple[T, ...]:
        """All sources, steps or sinks that could be understood."""
        found: list[T] = []
        parts = self._fields.inner(kind, f"{kind} by their names")
        for name in parts or ():
            assert parts is not None
            # What is wrong with a part as a whole is shown where its name is, not a line below.
            place, at = parts.key_place(name), parts.at(name)
            if not names.fullmatch(name):
                characters = _TABLE_CHARACTERS if names is _TABLE_NAME else _NAME_CHARACTERS
                text = f"{shown(name)} cannot be a name: expected {characters}"
                self._notes.problem(text, place, at)
            fields = Fields(self._notes, parts.node(name), at, expected, place)
            part = read(fields, name, self._folder)
            if part is None:
                self._left_out.add(name if names is _TABLE_NAME else at)
            else:
                found.append(part)
        return tuple(found)
