"""Requests made up from the API's own description: never a 5xx, and answers as described."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from support.effort import THOROUGH
from support.http_api import HttpApi

if TYPE_CHECKING:
    from support.server import ServerProcess

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
EXAMPLES = settings(
    max_examples=12 if THOROUGH else 5,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
KNOWN = {
    "subject": "orders-value",
    "version": "1",
    "id": "1",
    "guid": "79171145-74c8-bf42-ab4b-9980742ec68c",
    "topic": "orders",
    "group": "billing",
    "partition": 0,
    "offset": 0,
    "name": "revenue",
    "page": "topics/orders",
}
ENDLESS = {"/events"}
"""Nobody waits for the end of these."""


@pytest.fixture(scope="module")
def description(broker: ServerProcess) -> Any:
    with closing(HttpApi(broker.http_port)) as api:
        document = plain_arrays(api.get("/openapi.json"))
    described = schemathesis.openapi.from_dict(document)
    described.config.update(base_url=broker.http_url)
    return described


def plain_arrays(schema: Any) -> Any:
    """Tuples as arrays of a length: schemathesis turns `prefixItems` into what it then refuses."""
    if isinstance(schema, list):
        return [plain_arrays(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "prefixItems" in schema:
        first, *_ = schema.pop("prefixItems")
        schema["items"] = first
    return {name: plain_arrays(each) for name, each in schema.items()}


def make_known(api: HttpApi) -> None:
    """What made-up requests may ask about; an earlier one may have deleted it."""
    api.ask("POST", "/topics", {"name": "orders", "num_partitions": 3})
    api.publish("orders", "one", "two", "three", partition=0)
    api.ask("POST", "/groups/billing/offsets", {"offsets": {"orders": {"0": 1}}})
    api.ask("POST", "/groups/billing/join", {"topics": ["orders"]})
    api.publish("orders", "later", partition=0, delay="1h")
    api.ask("PUT", "/pipelines/revenue", {"state": "running"})
    api.ask("DELETE", "/mode")
    api.ask("DELETE", "/mode/orders-value")
    api.post("/schemas/subjects/orders-value/versions", {"schema": '{"type":"object"}'})


def bounded(case: Any) -> Any:
    """Keep made-up requests small: no thousand partitions, no minute of waiting."""
    if isinstance(case.body, dict):
        for field in ("num_partitions", "count"):
            if isinstance(case.body.get(field), int):
                case.body[field] = min(case.body[field], 8)
    for field in ("timeout", "wait"):
        if case.query and field in case.query:
            case.query[field] = "0"
    return case


def strategy(operation: Any, kind: str) -> Any:
    """Requests as described; such about things that exist; such as are not as described."""
    if kind == "wrong":
        return operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
    named = {name: KNOWN[name] for name in re.findall(r"{(\w+)}", operation.path)}
    return operation.as_strategy(
        generation_mode=GenerationMode.POSITIVE,
        path_parameters=named if kind == "known" and named else None,
    )


def is_hardly_wrong(operation: Any) -> bool:
    """Whether it takes a name alone that almost any text is, such as a group's: a search for
    others takes a minute."""
    named = [each.name for each in operation.iter_parameters()]
    return not operation.body and named in (["group"], ["name"], ["page"])


@pytest.mark.parametrize("kind", ["right", "known", "wrong"])
@pytest.mark.parametrize(
    "tag",
    [
        *("topics", "messages", "groups", "offsets", "schemas", "admin", "health", "statistics"),
        *("acknowledgement", "dead letters", "delayed messages", "documents"),
        *("overview", "pipelines", "console"),
    ],
)
def test_no_request_makes_the_server_fail_or_say_something_else_than_described(
    description: Any, api: HttpApi, tag: str, kind: str
) -> None:
    operations = [found.ok() for found in description.get_all_operations()]
    paths = {each.path for each in operations}
    chosen = [
        each
        for each in operations
        if tag in each.definition.raw["tags"]
        and each.path not in ENDLESS
        and each.path.removeprefix("/schemas")
        not in paths - {each.path}  # the same by another name
    ]
    assert chosen
    with requests.Session() as session:
        for operation in chosen:
            if kind != "right" and not operation.body and not list(operation.iter_parameters()):
                continue  # there is nothing to be known, or wrong
            if kind == "wrong" and is_hardly_wrong(operation):
                continue
            make_known(api)

            @EXAMPLES
            @given(strategy(operation, kind))
            def check(case: Any) -> None:
                bounded(case).call_and_validate(checks=CHECKS, session=session, timeout=90)

            check()
