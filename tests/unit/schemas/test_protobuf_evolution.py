"""Evolution cases of Protobuf with the verdicts of Confluent's registry."""

from __future__ import annotations

import pytest

from unit.schemas.schema_texts import parsed, proto

BASE = "message M { string a = 1; int32 b = 2; }"
NESTED = "message M { N n = 1; message N { %s } }"
STATUS = "enum S { X = 0; Y = 1; }"
ONEOF = "message M { oneof o { string a = 1; string b = 2; } }"
IMPORT = 'import "other.proto"; message M { o.T t = 1; }'

CASES = {
    # name: (old, new, whether the new one can read what the old one wrote)
    "nothing changes": (BASE, BASE, True),
    "add a field": (BASE, "message M { string a = 1; int32 b = 2; bool c = 3; }", True),
    "remove a field": (BASE, "message M { string a = 1; }", True),
    "rename a field": (BASE, "message M { string z = 1; int32 b = 2; }", True),
    "renumber a field": (BASE, "message M { string a = 3; int32 b = 2; }", True),
    "reserve what was removed": (
        BASE,
        'message M { reserved 2; reserved "b"; string a = 1; }',
        True,
    ),
    # types that look the same on the wire
    "int32 becomes int64": (BASE, "message M { string a = 1; int64 b = 2; }", True),
    "int32 becomes bool": (BASE, "message M { string a = 1; bool b = 2; }", True),
    "int32 becomes an enum": (BASE, f"message M {{ string a = 1; S b = 2; }} {STATUS}", True),
    "an enum becomes int32": (f"message M {{ string a = 1; S b = 2; }} {STATUS}", BASE, True),
    "string becomes bytes": (BASE, "message M { bytes a = 1; int32 b = 2; }", True),
    "fixed32 becomes sfixed32": (
        "message M { fixed32 a = 1; }",
        "message M { sfixed32 a = 1; }",
        True,
    ),
    # types that do not
    "int32 becomes sint32": (BASE, "message M { string a = 1; sint32 b = 2; }", False),
    "int32 becomes string": (BASE, "message M { string a = 1; string b = 2; }", False),
    "int32 becomes fixed32": (BASE, "message M { string a = 1; fixed32 b = 2; }", False),
    "float becomes double": ("message M { float a = 1; }", "message M { double a = 1; }", False),
    "fixed32 becomes fixed64": (
        "message M { fixed32 a = 1; }",
        "message M { fixed64 a = 1; }",
        False,
    ),
    "a scalar becomes a message": (
        BASE,
        "message M { string a = 1; N b = 2; } message N { int32 x = 1; }",
        False,
    ),
    "a message becomes another": (
        "message M { N n = 1; } message N { int32 x = 1; }",
        "message M { O n = 1; } message O { int32 x = 1; } message N { int32 x = 1; }",
        False,
    ),
    # labels
    "a number becomes repeated": (
        "message M { int32 a = 1; }",
        "message M { repeated int32 a = 1; }",
        False,
    ),
    "a text becomes repeated": (
        "message M { string a = 1; }",
        "message M { repeated string a = 1; }",
        True,
    ),
    "a message becomes repeated": (
        "message M { N a = 1; message N {} }",
        "message M { repeated N a = 1; message N {} }",
        True,
    ),
    "a field becomes optional": (
        "message M { int32 a = 1; }",
        "message M { optional int32 a = 1; }",
        True,
    ),
    # messages and packages
    "add a message": (BASE, BASE + " message N { string a = 1; }", True),
    "remove a message": (BASE + " message N { string a = 1; }", BASE, False),
    "messages change places": (
        BASE + " message N { string a = 1; }",
        "message N { string a = 1; } " + BASE,
        True,
    ),
    "rename a message": (BASE, BASE.replace("M", "Q"), False),
    "the package changes": ("package x; " + BASE, "package y; " + BASE, True),
    "a nested message gets a field": (
        NESTED % "int32 x = 1;",
        NESTED % "int32 x = 1; int32 y = 2;",
        True,
    ),
    "a nested field is retyped": (NESTED % "int32 x = 1;", NESTED % "string x = 1;", False),
    "a nested message goes": (
        "message M { int32 a = 1; message N {} }",
        "message M { int32 a = 1; }",
        False,
    ),
    "a name is written in full": (
        "package p; message M { N n = 1; message N { int32 x = 1; } }",
        "package p; message M { .p.M.N n = 1; message N { int32 x = 1; } }",
        True,
    ),
    # enums
    "an enum gets a value": (STATUS, "enum S { X = 0; Y = 1; Z = 2; }", True),
    "an enum loses a value": (STATUS, "enum S { X = 0; }", True),
    "a value of an enum is renamed": (STATUS, "enum S { X = 0; W = 1; }", True),
    "an enum goes": (BASE + STATUS, BASE, True),
    # oneofs
    "a field moves into a new oneof": (
        BASE,
        "message M { string a = 1; oneof o { int32 b = 2; string c = 3; } }",
        True,
    ),
    "two fields move into a oneof": (
        BASE,
        "message M { oneof o { string a = 1; int32 b = 2; } }",
        False,
    ),
    "a field moves into a oneof that is there": (
        "message M { string c = 3; oneof o { string a = 1; } }",
        "message M { oneof o { string a = 1; string c = 3; } }",
        False,
    ),
    "a oneof gets a field": (ONEOF, ONEOF.replace("b = 2;", "b = 2; int32 c = 3;"), True),
    "a oneof loses a field": (ONEOF, "message M { oneof o { string a = 1; } }", False),
    "a oneof goes and its fields stay": (ONEOF, "message M { string a = 1; string b = 2; }", True),
    "a oneof goes with its fields": (ONEOF, "message M { }", True),
    # maps
    "the values of a map are retyped": (
        "message M { map<string, int32> m = 1; }",
        "message M { map<string, string> m = 1; }",
        False,
    ),
    "the values of a map widen": (
        "message M { map<string, int32> m = 1; }",
        "message M { map<string, int64> m = 1; }",
        True,
    ),
    "a map becomes a message": (
        "message M { map<string, int32> m = 1; }",
        "message M { N m = 1; message N { int32 x = 1; } }",
        False,
    ),
    "a message that holds itself gets a field": (
        "message M { M next = 1; }",
        "message M { M next = 1; int32 x = 2; }",
        True,
    ),
}
PROTO2_CASES = {
    "a required field comes": (
        "message M { optional string a = 1; }",
        "message M { optional string a = 1; required string b = 2; }",
        False,
    ),
    "a required field goes": (
        "message M { optional string a = 1; required string b = 2; }",
        "message M { optional string a = 1; }",
        False,
    ),
    "an optional field comes": (
        "message M { optional string a = 1; }",
        "message M { optional string a = 1; optional string b = 2; }",
        True,
    ),
}
IMPORT_CASES = {
    # name: (old file, new file, verdict)
    "an imported message gets a field": (
        "message T { int32 x = 1; }",
        "message T { int32 x = 1; int32 y = 2; }",
        True,
    ),
    "an imported field is retyped": (
        "message T { int32 x = 1; }",
        "message T { string x = 1; }",
        False,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_protobuf_verdict(name: str) -> None:
    old, new, compatible = CASES[name]
    before, after = parsed("PROTOBUF", proto(old)), parsed("PROTOBUF", proto(new))
    assert (not after.reads(before)) is compatible, after.reads(before)


@pytest.mark.parametrize("name", PROTO2_CASES)
def test_proto2_verdict(name: str) -> None:
    old, new, compatible = PROTO2_CASES[name]
    before = parsed("PROTOBUF", proto(old, syntax="proto2"))
    after = parsed("PROTOBUF", proto(new, syntax="proto2"))
    assert (not after.reads(before)) is compatible, after.reads(before)


@pytest.mark.parametrize("name", IMPORT_CASES)
def test_imported_verdict(name: str) -> None:
    old, new, compatible = IMPORT_CASES[name]
    before, after = (
        parsed("PROTOBUF", proto(IMPORT), ("other.proto", proto(other, "package o;")))
        for other in (old, new)
    )
    assert (not after.reads(before)) is compatible, after.reads(before)


def test_a_verdict_says_where() -> None:
    old = parsed("PROTOBUF", proto(NESTED % "int32 x = 1;"))
    new = parsed("PROTOBUF", proto(NESTED % "string x = 1;"))
    said = new.reads(old)
    assert any("/M/1(M.N)/1: a number became text or bytes" in each for each in said), said


def edition(body: str) -> str:
    return f'edition = "2023"; {body}'


EDITIONS = {
    # name: (old, new, whether the new one can read what the old one wrote)
    "proto3 becomes an edition": (proto(BASE), edition(BASE), True),
    "an edition becomes proto3": (edition(BASE), proto(BASE), True),
    "presence changes": (
        edition(BASE),
        edition(f"option features.field_presence = IMPLICIT; {BASE}"),
        True,
    ),
    "a required field is added": (
        edition("message M { string a = 1; }"),
        edition(
            "message M { string a = 1; int32 b = 2 [features.field_presence = LEGACY_REQUIRED]; }"
        ),
        False,
    ),
    "a required field of proto2 stays": (
        proto("message M { required int32 a = 1; }", syntax="proto2"),
        edition("message M { int32 a = 1 [features.field_presence = LEGACY_REQUIRED]; }"),
        True,
    ),
    "a message becomes delimited": (
        edition("message M { N n = 1; message N {} }"),
        edition("message M { N n = 1 [features.message_encoding = DELIMITED]; message N {} }"),
        False,
    ),
    "a scalar changes its kind": (
        edition("message M { int32 a = 1; }"),
        edition("message M { string a = 1; }"),
        False,
    ),
}


@pytest.mark.parametrize("name", EDITIONS)
def test_editions_evolve_by_the_same_rules(name: str) -> None:
    old, new, is_compatible = EDITIONS[name]
    problems = parsed("PROTOBUF", new).reads(parsed("PROTOBUF", old))
    assert (not problems) is is_compatible, problems


def test_messages_are_checked_by_the_features_of_their_edition() -> None:
    text = edition("message M { int32 a = 1 [features.field_presence = LEGACY_REQUIRED]; }")
    validator = parsed("PROTOBUF", text).validator()
    assert validator.check(b"\x08\x01") is None
    assert validator.check(b"") == "/a: required, and not there"


def test_a_file_may_have_nothing_but_imports() -> None:
    text = proto('import public "other.proto";')
    imports = parsed("PROTOBUF", text, ("other.proto", proto("message T { int32 a = 1; }")))
    assert 'import public "other.proto";' in imports.canonical
    user = parsed(
        "PROTOBUF",
        proto('import "imports.proto"; message M { T t = 1; }'),
        ("other.proto", proto("message T { int32 a = 1; }")),
        ("imports.proto", text),
    )
    assert user.validator().check(b"\x0a\x02\x08\x01") is None
    told = imports.validator().check(b"")
    assert told == "/: the schema has no message with the indexes [0]"
