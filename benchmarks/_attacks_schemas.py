"""Attacks with schemas: patterns that a backtracking engine spins on, and steps without an end."""

from __future__ import annotations

import http.client
import json
from functools import cache
from typing import Any, Final

from benchmarks._attacks import ATTEMPT_S, HOST, Attack, Target

SUBJECT: Final = "patterns"
TOPIC: Final = "validated"
DOUBLED: Final = "doubled"
_LEVELS: Final = 40
_MESSAGES: Final = 1000
_SPINS: Final = "^(a|aa)+$"
_SPINS_BACKWARDS: Final = "^(?!b)(a|aa)+$"
"""With a look around, which engines without backtracking cannot do."""
_NAME: Final = "a" * 60 + "!"
_ANSWERED: Final = ("200", "400", "409", "422")
"""It is taken or refused, and neither takes long."""


def _schema(**said: Any) -> str:
    schema = json.dumps({"type": "object", **said})
    return json.dumps({"schemaType": "JSON", "schema": schema})


def _send(target: Target, method: str, path: str, body: str) -> str:
    connection = http.client.HTTPConnection(HOST, target.http_port, timeout=ATTEMPT_S)
    connection.request(method, path, body, {"content-type": "application/json"})
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    return f"{answer.status} {said[:80].decode()}"


def _expect_made(answer: str) -> None:
    if not answer.startswith("20"):
        raise RuntimeError(f"the attack cannot be prepared: {answer}")


def _register_pattern(target: Target) -> None:
    schema = _schema(patternProperties={_SPINS: {"type": "string"}}, additionalProperties=False)
    _expect_made(_send(target, "POST", f"/subjects/{SUBJECT}/versions", schema))


def compare_schemas(target: Target) -> str:
    """A schema with a name that an older one's pattern spins on."""
    schema = _schema(properties={_NAME: {"type": "string"}}, additionalProperties=False)
    path = f"/compatibility/subjects/{SUBJECT}/versions/latest"
    return _send(target, "POST", path, schema)


def _make_validated(target: Target) -> None:
    settings = {"goqueue.schema.validation": "latest"}
    _expect_made(
        _send(target, "POST", "/topics", json.dumps({"name": TOPIC, "settings": settings}))
    )
    pattern = {"s": {"type": "string", "pattern": _SPINS_BACKWARDS}}
    path = f"/subjects/{TOPIC}-value/versions"
    _expect_made(_send(target, "POST", path, _schema(properties=pattern)))


@cache
def _spinning_messages() -> str:
    message = {"value": json.dumps({"s": _NAME})}
    return json.dumps({"messages": [message] * _MESSAGES})


def validate_messages(target: Target) -> str:
    """A publish of a thousand messages on each of which the schema's pattern spins."""
    return _send(target, "POST", f"/topics/{TOPIC}/messages", _spinning_messages())


def _make_doubled(target: Target) -> None:
    settings = {"goqueue.schema.validation": "latest"}
    body = json.dumps({"name": DOUBLED, "settings": settings})
    _expect_made(_send(target, "POST", "/topics", body))
    levels = {
        f"d{at}": {"allOf": [{"$ref": f"#/definitions/d{at + 1}"}] * 2} for at in range(_LEVELS)
    }
    schema = {"definitions": {**levels, f"d{_LEVELS}": {}}, "$ref": "#/definitions/d0"}
    path = f"/subjects/{DOUBLED}-value/versions"
    _expect_made(
        _send(
            target, "POST", path, json.dumps({"schemaType": "JSON", "schema": json.dumps(schema)})
        )
    )


def double_steps(target: Target) -> str:
    """A message that its schema looks at twice on each level."""
    return _send(target, "POST", f"/topics/{DOUBLED}/messages", '{"messages": [{"value": "1"}]}')


ATTACKS: Final = [
    Attack(2, "schema patterns", compare_schemas, _ANSWERED, _register_pattern),
    Attack(2, "schema validation", validate_messages, _ANSWERED, _make_validated),
    Attack(2, "schema steps", double_steps, _ANSWERED, _make_doubled),
]
