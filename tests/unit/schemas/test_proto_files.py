"""Our reading of .proto files is protoc's, and what we write reads back as the same."""

from __future__ import annotations

import base64
import warnings
from importlib import resources
from typing import TYPE_CHECKING

import pytest
from google.protobuf import descriptor_pb2 as pb

from goqueue.model.errors import InvalidSchemaError
from goqueue.schemas.protobuf.parser import parse_proto
from goqueue.schemas.protobuf.schema import ProtobufSchema
from goqueue.schemas.protobuf.text import json_name, text_of
from unit.schemas.schema_texts import parsed, proto

if TYPE_CHECKING:
    from pathlib import Path

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it looks for itself with pkg_resources
    from grpc_tools import protoc

EVERYTHING = r"""
// a comment
syntax = "proto3";
package a.b; /* another */
import "google/protobuf/timestamp.proto";
import public "google/protobuf/any.proto";
option java_package = "com.example";
option java_multiple_files = true;
option optimize_for = CODE_SIZE;
option go_package = 'x/' "y";

message Outer {
  option deprecated = true;
  reserved 100 to 110, 120, 200 to max;
  reserved "gone", "lost";
  double d = 1; float f = 2; int32 i = 3; int64 l = 4; uint32 ui = 5; uint64 ul = 6;
  sint32 si = 7; sint64 sl = 8; fixed32 fi = 9; fixed64 fl = 10; sfixed32 sfi = 11;
  sfixed64 sfl = 12; bool b = 13; string s = 14; bytes by = 0xF;
  optional string maybe = 16;
  optional Inner maybe_inner = 17;
  repeated int32 numbers = 18 [packed = false, deprecated = true];
  map<string, Inner> by_name = 19;
  map<int32, string> texts = 035 [deprecated = true];
  oneof choice { string x = 21; Inner y = 22; .a.b.Outer.Inner.Deep z = 23; }
  google.protobuf.Timestamp at = 24 [json_name = "when"];
  Outer next = 25;
  Kind kind = 26;
  Outer.Inner.Deep deep = 27;
  b.Top top = 28;
  message Inner {
    message Deep { int32 q = 1; Inner up = 2; }
    repeated Deep deeps = 1;
  }
  enum Kind { option allow_alias = true; NONE = 0; ONE = 1; UNO = 1 [deprecated = true];
    reserved 5 to 9, 20; reserved "OLD"; NEG = -1; }
}
message Top {}
enum Plain { ZERO = 0; };
service Shop {
  option deprecated = true;
  rpc Buy (Outer) returns (stream Top);
  rpc Sell (stream .a.b.Top) returns (Outer.Inner) { option idempotency_level = IDEMPOTENT; };
}
"""
OLD = r"""
syntax = "proto2";
package old;
message M {
  required int32 a = 1 [default = -7];
  optional string s = 2 [default = "h\"\x41\n\303\244"];
  optional bytes b = 3 [default = "\001\xff"];
  optional float f = 4 [default = 1.5];
  optional double g = 5 [default = inf];
  optional double h = 11 [default = -2e10];
  optional E e = 6 [default = Y];
  optional bool t = 7 [default = true];
  optional uint64 u = 12 [default = 0xff];
  repeated group Part = 8 { optional int32 inside = 1; }
  extensions 1000 to 1999, 3000, 4000 to max;
  enum E { X = 1; Y = 2; }
  extend M { optional int32 more = 1001; }
  oneof o { int32 p = 9; string q = 10; }
}
extend M { optional string extra = 1000; repeated M others = 3000; }
"""
EDITION = r"""
edition = "2023";
package new;
import "google/protobuf/timestamp.proto";
option features.field_presence = IMPLICIT;
option features.repeated_field_encoding = EXPANDED;
option java_package = "com.example";
message M {
  option features.json_format = LEGACY_BEST_EFFORT;
  reserved gone, lost;
  reserved 100 to 110;
  int32 implicit = 1;
  string explicit = 2 [features.field_presence = EXPLICIT, default = "x"];
  int64 needed = 3 [features.field_presence = LEGACY_REQUIRED];
  repeated int32 packed = 4 [features.repeated_field_encoding = PACKED];
  N delimited = 5 [features = { message_encoding: DELIMITED }];
  map<string, N> by_name = 6;
  google.protobuf.Timestamp at = 7;
  oneof choice { string x = 8; N y = 9; }
  E e = 10 [features.field_presence = EXPLICIT];
  bytes raw = 11 [deprecated = true];
  message N { string text = 1 [features.utf8_validation = NONE]; }
  enum E { option features.enum_type = CLOSED; reserved OLD; ONE = 1; TWO = 2; }
  extensions 1000 to max;
}
extend M { string extra = 1000; }
"""
NEWER = """
edition = "2024";
message M { N n = 1; local message Inner {} local enum E { E_ZERO = 0; } int32 export = 2; }
export message N {}
"""
FILES = {"proto3": EVERYTHING, "proto2": OLD, "2023": EDITION, "2024": NEWER}


def protoc_s(text: str, folder: Path) -> pb.FileDescriptorProto:
    (folder / "default").write_text(text)
    known = str(resources.files("grpc_tools") / "_proto")
    out = folder / "out.pb"
    command = ["protoc", f"-I{folder}", f"-I{known}", f"--descriptor_set_out={out}", "default"]
    assert protoc.main(command) == 0
    (file,) = pb.FileDescriptorSet.FromString(out.read_bytes()).file
    return file


def plain(file: pb.FileDescriptorProto) -> pb.FileDescriptorProto:
    """Without the names in JSON that follow from the fields' own."""
    copy = pb.FileDescriptorProto.FromString(file.SerializeToString())

    def visit(message: pb.DescriptorProto) -> None:
        for field in [*message.field, *message.extension]:
            forget(field)
        for nested in message.nested_type:
            visit(nested)

    def forget(field: pb.FieldDescriptorProto) -> None:
        if field.json_name == json_name(field.name):
            field.ClearField("json_name")

    for message in copy.message_type:
        visit(message)
    for field in copy.extension:
        forget(field)
    return copy


def resolved(schema: ProtobufSchema) -> pb.FileDescriptorProto:
    return pb.FileDescriptorProto.FromString(base64.b64decode(schema.formatted("serialized")))


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_as_protoc_reads_it(name: str, tmp_path: Path) -> None:
    theirs = plain(protoc_s(FILES[name], tmp_path))
    ours = plain(resolved(ProtobufSchema(FILES[name])))
    assert ours == theirs


@pytest.mark.parametrize("name", FILES)
def test_what_is_written_reads_back_as_the_same(name: str, tmp_path: Path) -> None:
    schema = ProtobufSchema(FILES[name])
    again = ProtobufSchema(schema.canonical)
    assert again.canonical == schema.canonical
    assert resolved(again) == resolved(schema)
    assert plain(protoc_s(schema.canonical, tmp_path)) == plain(resolved(schema))


@pytest.mark.parametrize("name", FILES)
def test_a_descriptor_in_base64_is_the_same_schema(name: str, tmp_path: Path) -> None:
    sent = base64.b64encode(protoc_s(FILES[name], tmp_path).SerializeToString()).decode()
    assert ProtobufSchema(sent).normalised == ProtobufSchema(FILES[name]).normalised


def test_custom_options_are_kept() -> None:
    text = proto(
        'message M { option (mine) = { a: 1 b: "x" }; int32 a = 1 [(my.note).deep = "n", (n) = -3];'
        " enum E { X = 0 [(w) = WORD]; } }"
    )
    file = parse_proto(text, "default")
    assert parse_proto(text_of(file), "default") == file
    assert '(my.note).deep = "n"' in text_of(file)


def test_two_layouts_are_one_canonical_text() -> None:
    one = parsed("PROTOBUF", 'syntax="proto3";message M{int32 a=1;}')
    two = parsed("PROTOBUF", 'syntax = "proto3";\n\nmessage M { // words\n  int32 a = 1;\n}\n')
    assert one.canonical == two.canonical


def test_normalising_forgets_what_has_no_order() -> None:
    one = parsed(
        "PROTOBUF", proto("message M { N b = 2; int32 a = 1; message N {} }", "package p;")
    )
    two = parsed(
        "PROTOBUF", proto("message M { int32 a = 1; .p.M.N b = 2; message N {} }", "package p;")
    )
    assert one.canonical != two.canonical
    assert one.normalised == two.normalised


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (proto("message M {"), "line 1: expected a name, not 'the end'"),
        (proto("message M { int32 a = 0; }"), "not within 1"),
        (proto("message M { int32 a; }"), "expected '='"),
        (proto("message M { Missing a = 1; }"), "Missing"),
        (proto("message M { int32 a = 1; int32 b = 1; }"), "number"),
        (proto("message M {} message M {}"), "duplicate"),
        (proto('import "gone.proto"; message M {}'), "neither among the references nor known"),
        (proto("message M { required int32 a = 1; }"), "proto3 has no required"),
        (proto("message M {}", syntax="proto9"), "no syntax 'proto9'"),
        ('edition = "1999"; message M {}', "no edition '1999'"),
        ('edition = "2023"; message M { optional int32 a = 1; }', "features.field_presence"),
        ('edition = "2023"; message M { int32 a = 1 [features.nope = X]; }', "features.nope"),
        ('edition = "2023"; message M { reserved "a"; }', "expected"),
        (proto("message 1x {}"), "expected a name"),
        (proto("%"), "nothing of .proto"),
        (proto(""), "no message, enum, service"),
        (proto("message M { " * 70 + "}" * 70), "nested deeper"),
        ("AAAA", "expected"),
    ],
)
def test_what_is_no_schema_is_refused_with_where_and_why(text: str, said: str) -> None:
    with pytest.raises(InvalidSchemaError, match=said):
        parsed("PROTOBUF", text)
