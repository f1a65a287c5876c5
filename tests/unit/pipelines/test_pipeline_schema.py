"""The JSON Schema for editors: it takes what the reader of files takes, and no other keys."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest
import yaml

from goqueue.spark.pipelines.files.json_schema import pipeline_schema
from goqueue.spark.pipelines.files.yaml_file import read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[3] / "docs"
PAGES = (DOCS / "how-to/pipelines.md", DOCS / "tutorials/first-pipeline.md")
EXAMPLES = [
    text
    for page in PAGES
    for text in re.findall(
        r'```yaml(?: title="revenue.yaml")?\n(name: .*?)```', page.read_text(), re.DOTALL
    )
]
DEMO = resources.files("goqueue.spark.demo").joinpath("orders.yaml").read_text("utf-8")
ONE_OF = {"topic", "topics", "pattern"}
"""A source of messages has one of these; the reader names all of them."""
ODD = "zzz"
"""A key that nothing has: what is said of it names the keys that there are."""


def is_valid(text: str) -> bool:
    read = yaml.load(text, yaml.BaseLoader)  # as texts alone: others take `on` for true
    return jsonschema_rs.validator_for(pipeline_schema()).is_valid(read)


@pytest.mark.parametrize("text", [*EXAMPLES, DEMO], ids=lambda text: text.split("\n")[0])
def test_the_pipelines_of_the_docs_and_the_demo_are_valid(text: str) -> None:
    assert is_valid(text)


SOURCES = "name: n\nsources: {a: {topic: a}}\nsinks: {s: {from: a, console: }}\n"


@pytest.mark.parametrize(
    "line",
    [
        "trigerr: 10 seconds",
        "steps: {s: {sql: SELECT 1, rules: []}}",
        "steps: {s: {from: a, rules: [{expect: x, otherwise: keep}]}}",
        "steps: {1s: {sql: SELECT 1}}",
        "broker: {server: a}",
        "spark: {master: [a]}",
    ],
)
def test_what_a_file_cannot_hold_is_not_valid(line: str) -> None:
    assert is_valid(SOURCES)
    assert not is_valid(f"{SOURCES}{line}\n")


@pytest.mark.parametrize(
    "line",
    [
        "steps: {s: {from: a, rules: [{expect: x, otherwise: dead_letter}]}}",
        "checkpoints: ${FOLDER:-./c}",
        "trigger: available-now",
        "broker: 127.0.0.1:9092",
    ],
)
def test_other_spellings_of_the_same_are_valid(line: str) -> None:
    assert is_valid(f"{SOURCES}{line}\n")


# --- Every mapping has the keys that the reader takes --------------------------------------------


def mappings(schema: dict[str, Any]) -> Iterator[tuple[set[str], Any]]:
    """The keys of each mapping in the schema, with the smallest file that has one more there."""
    properties = schema.get("properties")
    if properties is not None:
        needed = {key: _least(properties[key]) for key in schema.get("required", ())}
        yield set(properties), {**needed, ODD: 1}
        for key, inner in properties.items():
            for keys, value in mappings(inner):
                yield keys, {**needed, key: value}
    for inner in schema.get("patternProperties", {}).values():
        for keys, value in mappings(inner):
            yield keys, {"x": value}
    if "items" in schema:
        for keys, value in mappings(schema["items"]):
            yield keys, [value]
    for inner in schema.get("anyOf", ()):
        yield from mappings(inner)


def _least(schema: dict[str, Any]) -> Any:
    """Something that a part of the schema takes."""
    if "anyOf" in schema:
        return _least(schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "array":
        return [_least(schema["items"])]
    if schema.get("type") == "object":
        return {key: _least(schema["properties"][key]) for key in schema.get("required", ())}
    return "1 minute"


ALL = list(mappings(pipeline_schema()))


@pytest.mark.parametrize(("keys", "value"), ALL, ids=lambda each: "+".join(sorted(each))[:60])
def test_a_mapping_of_the_schema_has_the_keys_that_the_reader_takes(
    keys: set[str], value: dict[str, Any]
) -> None:
    loaded = read_yaml(json.dumps({"name": "n", **value}).encode(), "/f.yaml", {})
    said = [
        each.message for each in loaded.problems if f"'{ODD}' is not known here" in each.message
    ]
    assert len(said) == 1, (value, loaded.problems)
    told = set(said[0].partition("expected one of ")[2].split(", "))
    assert told - (ONE_OF - keys if ONE_OF & keys else set()) == keys
