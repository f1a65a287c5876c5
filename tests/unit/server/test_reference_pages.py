"""The pages of errors and of gRPC say what the tables and the contract say."""

from __future__ import annotations

import json
from pathlib import Path

from goqueue.model.errors import GoQueueError
from goqueue.server.references import errors as errors_reference, grpc as grpc_reference
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

PAGES = Path(__file__).parents[3] / "docs" / "reference"


def test_the_page_of_errors_is_current() -> None:
    hint = "run: .venv/bin/python -m goqueue.server.references.errors > docs/reference/errors.md"
    is_current = (PAGES / "errors.md").read_text(encoding="utf-8") == errors_reference.reference()
    assert is_current, hint


def test_the_page_of_grpc_is_current() -> None:
    hint = "run: .venv/bin/python -m goqueue.server.references.grpc > docs/reference/grpc.md"
    is_current = (PAGES / "grpc.md").read_text(encoding="utf-8") == grpc_reference.reference()
    assert is_current, hint


def test_every_error_of_the_tree_has_advice() -> None:
    kinds = [GoQueueError]
    for kind in kinds:
        kinds += kind.__subclasses__()
        assert errors_reference.advice_for(kind).endswith("."), kind


def test_the_advice_of_refusals_is_about_the_error_and_not_about_its_status() -> None:
    """Only a missing right is answered by a right, and 409 by what is in the way."""
    page = errors_reference.reference()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| 4")]
    rights = {row[1].strip("`") for row in rows if "Ask an administrator for the right" in row[-1]}
    assert all(code.endswith("authorization_failed") for code in rights), rights
    assert rights
    conflicts = [row[-1] for row in rows if row[0] == "| 409" and row[4] != "yes"]
    assert len(set(conflicts)) > len(conflicts) / 2


def test_advice_on_what_is_missing_names_it_and_does_not_say_to_try_the_same_again() -> None:
    """404 says what is missing, so the advice is about that; a plain retry would not create it."""
    rows = [line.split(" | ") for line in errors_reference.reference().splitlines()]
    missing = {row[1].strip("`"): row[-1] for row in rows if row[0] == "| 404"}
    assert len(missing) > 20
    general = [code for code, advice in missing.items() if "create what is missing" in advice]
    again = [code for code, advice in missing.items() if "Send the same request" in advice]
    assert (general, again) == ([], [])
    assert missing["unknown_topic"].startswith("Create the topic")
    assert missing["unknown_receipt"].startswith("Nothing")


def test_the_example_of_an_error_is_one_that_there_is() -> None:
    page = errors_reference.reference()
    example = json.loads(page.partition("```json\n")[2].partition("```")[0])
    (row,) = (line for line in page.splitlines() if f"| `{example['code']}` |" in line)
    assert row.startswith(f"| {example['status']} |")
    assert (row.split(" | ")[4] == "yes") == example["retriable"]


def test_every_call_and_field_of_the_contract_is_on_its_page() -> None:
    page = grpc_reference.reference()
    for service in pb.DESCRIPTOR.services_by_name.values():
        for method in service.methods:
            assert f"| `{method.name}` |" in page
    for message in pb.DESCRIPTOR.message_types_by_name.values():
        for field in message.fields:
            assert f"| `{field.name}` |" in page
