"""The registry over HTTP: Confluent's paths, bodies, codes and media type, and ours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.http_api import HttpApi

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
LONG = '{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}'
TEXT = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}'


@pytest.fixture
def subject(api: HttpApi, name: Callable[[str], str]) -> str:
    """A subject with one version."""
    made = name("subject")
    assert api.post(f"/subjects/{made}/versions", {"schema": LONG})["version"] == 1
    return made


def refused(api: HttpApi, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, int]:
    """The status and the code of a refusal as Confluent's clients read it."""
    answer = api.ask(method, path, body, **more)
    assert answer.headers["content-type"] == MEDIA_TYPE, answer
    assert set(answer.json) == {"error_code", "message"}
    assert answer.json["message"]
    return answer.status, answer.json["error_code"]


def test_every_refusal_has_confluent_s_code(api: HttpApi, subject: str) -> None:
    known = f"/subjects/{subject}"
    checks = {
        ("GET", "/subjects/none/versions"): (404, 40401),
        ("GET", "/subjects/none/versions/1"): (404, 40401),
        ("GET", f"{known}/versions/9"): (404, 40402),
        ("GET", f"{known}/versions/0"): (422, 42202),
        ("GET", f"{known}/versions/x"): (422, 42202),
        ("GET", f"{known}/versions/99999999999"): (422, 42202),
        ("GET", "/schemas/ids/99999"): (404, 40403),
        ("GET", "/schemas/ids/x"): (404, 40403),
        ("GET", "/schemas/ids/99999/versions"): (404, 40403),
        ("GET", "/schemas/guids/x"): (404, 40403),
        ("DELETE", "/subjects/none"): (404, 40401),
        ("DELETE", f"{known}/versions/9"): (404, 40402),
        ("DELETE", f"{known}?permanent=true"): (404, 40405),
        ("DELETE", f"{known}/versions/1?permanent=true"): (404, 40407),
        ("GET", f"/config/{subject}"): (404, 40408),
        ("GET", f"/mode/{subject}"): (404, 40409),
        ("DELETE", f"/config/{subject}"): (404, 40401),
        ("GET", "/subjects?limit=x"): (422, 422),
    }
    for (method, path), expected in checks.items():
        assert refused(api, method, path) == expected, path
    bodies: dict[tuple[str, str], list[tuple[dict[str, Any], tuple[int, int]]]] = {
        ("POST", f"{known}/versions"): [
            ({"schema": "{"}, (422, 42201)),
            ({"schema": ""}, (422, 42201)),
            ({"schema": "{}", "schemaType": "XML"}, (422, 42201)),
            ({"schema": TEXT}, (409, 409)),
            ({"schema": LONG, "id": 5}, (422, 42205)),
            ({"schema": "x" * 1_000_001}, (422, 42209)),
            ({}, (422, 422)),
            ({"schema": 5}, (422, 422)),
            ({"schema": LONG, "references": [{"name": "x"}]}, (422, 422)),
        ],
        ("POST", known): [({"schema": TEXT}, (404, 40403))],
        ("POST", "/subjects/none"): [({"schema": LONG}, (404, 40401))],
        ("POST", f"/compatibility{known}/versions/7"): [({"schema": LONG}, (404, 40402))],
        ("POST", "/compatibility/subjects/none/versions/1"): [({"schema": LONG}, (404, 40401))],
        ("POST", f"/compatibility{known}/versions/latest"): [({"schema": "{"}, (422, 42201))],
        ("PUT", "/config"): [({"compatibility": "SOME"}, (422, 42203))],
        ("PUT", f"/config/{subject}"): [({"compatibility": "SOME"}, (422, 42203))],
        ("PUT", "/mode"): [({"mode": "SOME"}, (422, 42204)), ({"mode": "IMPORT"}, (422, 42205))],
        ("POST", "/subjects/%0A/versions"): [({"schema": LONG}, (422, 42208))],
    }
    for (method, path), cases in bodies.items():
        for body, expected in cases:
            assert refused(api, method, path, body) == expected, (path, str(body)[:60])
    assert refused(api, "POST", f"{known}/versions", raw=b"{") == (400, 400)
    assert refused(api, "POST", f"{known}/versions", {"schema": "x" * (5 << 20)})[0] == 413


@pytest.mark.parametrize(
    "body",
    [
        {"schema": "{"},
        {"schema": "{}", "schemaType": "XML"},
        {"schema": '{"type": "intger"}', "schemaType": "JSON"},
        {"schema": "message M {", "schemaType": "PROTOBUF"},
        {"schema": LONG, "references": [{"name": "x", "subject": "none", "version": 1}]},
    ],
)
def test_what_is_no_schema_is_called_an_invalid_schema(
    api: HttpApi, subject: str, body: dict[str, Any]
) -> None:
    answer = api.ask("POST", f"/subjects/{subject}/versions", body)
    assert answer.json["error_code"] == 42201
    assert answer.json["message"].startswith("Invalid schema")


def test_an_edition_and_a_file_that_only_imports_are_registered(
    api: HttpApi, name: Callable[[str], str]
) -> None:
    whole, imports = name("whole"), name("imports")
    text = 'edition = "2023";\n\nmessage M {\n  int32 a = 1;\n}\n'
    api.post(f"/subjects/{whole}/versions", {"schema": text, "schemaType": "PROTOBUF"})
    assert api.get(f"/subjects/{whole}/versions/1")["schema"] == text
    body = {
        "schema": 'syntax = "proto3"; import public "m.proto";',
        "schemaType": "PROTOBUF",
        "references": [{"name": "m.proto", "subject": whole, "version": 1}],
    }
    assert api.post(f"/subjects/{imports}/versions", body)["version"] == 1


def test_deleting_takes_two_steps(api: HttpApi, subject: str) -> None:
    known = f"/subjects/{subject}"
    api.post(f"{known}/versions", {"schema": LONG.replace('"long"', '"double"')})
    assert api.ask("DELETE", f"{known}/versions/1").json == 1
    assert refused(api, "DELETE", f"{known}/versions/1") == (404, 40406)
    assert api.get(f"{known}/versions") == [2]
    assert api.get(f"{known}/versions?deleted=true") == [1, 2]
    assert api.get(f"{known}/versions?deletedOnly=true") == [1]
    assert api.get(f"{known}/versions/1?deleted=true")["deleted"] is True
    assert api.ask("DELETE", f"{known}/versions/1?permanent=true").json == 1
    assert api.get(f"{known}/versions?deleted=true") == [2]
    assert api.ask("DELETE", known).json == [2]
    assert refused(api, "DELETE", known) == (404, 40404)
    assert subject not in api.get("/subjects")
    assert subject in api.get("/subjects?deleted=true")
    assert api.ask("DELETE", f"{known}?permanent=true").json == [2]
    assert refused(api, "DELETE", known) == (404, 40401)


def test_a_schema_is_found_by_everything_that_names_it(api: HttpApi, subject: str) -> None:
    found = api.get(f"/subjects/{subject}/versions/latest")
    by_id = api.get(f"/schemas/ids/{found['id']}?fetchMaxId=true")
    assert by_id["schema"] == found["schema"] == LONG
    assert by_id["maxId"] >= found["id"]
    assert api.ask("GET", f"/schemas/ids/{found['id']}/schema").body.decode() == LONG
    assert api.ask("GET", f"/subjects/{subject}/versions/1/schema").body.decode() == LONG
    assert api.get(f"/schemas/guids/{found['guid']}")["schema"] == LONG
    assert subject in api.get(f"/schemas/ids/{found['id']}/subjects")
    uses = api.get(f"/schemas/ids/{found['id']}/versions?subject={subject}")
    assert uses == [{"subject": subject, "version": 1}]
    assert api.post(f"/subjects/{subject}", {"schema": f" {LONG}"})["version"] == 1
    listed = api.get(f"/schemas?subjectPrefix={subject}&latestOnly=true")
    assert [each["version"] for each in listed] == [1]


def test_the_same_is_there_under_schemas_where_json_is_the_usual_type(
    api: HttpApi, name: Callable[[str], str]
) -> None:
    subject = name("ours")
    for prefix in ("/schemas", "/v1/schemas"):
        made = api.post(f"{prefix}/subjects/{subject}/versions", {"schema": '{"type":"object"}'})
        assert made["version"] == 1
    assert api.get(f"/subjects/{subject}/versions/1")["schemaType"] == "JSON"
    assert api.get(f"/schemas/subjects/{subject}/versions/latest")["version"] == 1
    assert subject in api.get("/schemas/subjects")
    assert api.get("/schemas/config") == api.get("/config") == {"compatibilityLevel": "BACKWARD"}
    assert api.get("/schemas/mode") == {"mode": "READWRITE"}
    checked = api.post(
        f"/schemas/compatibility/subjects/{subject}/versions/latest?verbose=true",
        {"schema": '{"type":"array"}'},
    )
    assert checked["is_compatible"] is False
    assert "TYPE_CHANGED" in checked["messages"][0]
    stats = api.get("/schemas/stats")
    assert stats["subjects"] >= 1
    assert stats["by_type"]["JSON"] >= 1


def test_levels_and_modes_are_set_and_taken_back(api: HttpApi, subject: str) -> None:
    for what, value, key in (
        ("config", "FULL_TRANSITIVE", "compatibility"),
        ("mode", "READONLY", "mode"),
    ):
        shown = "compatibilityLevel" if what == "config" else "mode"
        path = f"/{what}/{subject}"
        assert api.ask("PUT", path, {key: value.lower()}).json == {key: value}
        assert api.get(path) == {shown: value}
        assert api.ask("DELETE", path).json == {shown: value}
        assert api.get(f"{path}?defaultToGlobal=true") == api.get(f"/{what}")


def test_media_types_are_confluent_s_unless_plain_json_is_asked_for(api: HttpApi) -> None:
    for accept, given in (
        ("*/*", MEDIA_TYPE),
        ("application/json", "application/json"),
        (f"{MEDIA_TYPE}, application/json", MEDIA_TYPE),
    ):
        answer = api.ask("GET", "/subjects", headers={"Accept": accept})
        assert answer.headers["content-type"] == given


def test_protobuf_is_shown_as_text_and_as_a_descriptor(
    api: HttpApi, name: Callable[[str], str]
) -> None:
    subject = name("proto")
    text = 'syntax = "proto3";\n\nmessage M {\n  int32 a = 1;\n}\n'
    body = {"schema": text, "schemaType": "PROTOBUF"}
    made = api.post(f"/subjects/{subject}/versions", body)
    assert api.get(f"/subjects/{subject}/versions/1")["schema"] == text
    coded = api.get(f"/schemas/ids/{made['id']}?format=serialized")["schema"]
    again = api.post(f"/subjects/{subject}", {"schema": coded, "schemaType": "PROTOBUF"})
    assert again["id"] == made["id"]


def test_metadata_and_rules_come_back_as_they_were_given(
    api: HttpApi, name: Callable[[str], str]
) -> None:
    subject = name("noted")
    noted = {
        "schema": LONG,
        "metadata": {"properties": {"owner": "us"}},
        "ruleSet": {"domainRules": [{"name": "r", "kind": "CONDITION"}]},
    }
    api.post(f"/subjects/{subject}/versions", noted)
    found = api.get(f"/subjects/{subject}/versions/1")
    assert {key: found[key] for key in noted} == noted
    assert refused(api, "POST", f"/subjects/{subject}", {"schema": LONG}) == (404, 40403)


def test_referrers_keep_what_they_stand_on(api: HttpApi, name: Callable[[str], str]) -> None:
    item, order = name("item"), name("order")
    api.post(f"/subjects/{item}/versions", {"schema": '{"type":"fixed","name":"I","size":1}'})
    using = json.dumps({"type": "record", "name": "O", "fields": [{"name": "i", "type": "I"}]})
    body = {"schema": using, "references": [{"name": "I", "subject": item, "version": -1}]}
    made = api.post(f"/subjects/{order}/versions", body)
    assert api.get(f"/subjects/{item}/versions/1/referencedby") == [made["id"]]
    assert api.get(f"/subjects/{order}/versions/1")["references"][0]["version"] == 1
    assert refused(api, "DELETE", f"/subjects/{item}/versions/1") == (422, 42206)
