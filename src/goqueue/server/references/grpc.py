"""The reference page of the gRPC contract, made from the contract and from the rights of its calls.

`python -m goqueue.server.references.grpc > docs/reference/grpc.md`; a test holds the page to it.
"""

from __future__ import annotations

import re
import sys
from importlib import resources
from typing import TYPE_CHECKING, Final

from google.protobuf.descriptor import FieldDescriptor

from goqueue.protocols.grpc.rights import RIGHTS
from goqueue.server.rights_reference import text_of
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from google.protobuf.descriptor import Descriptor, MethodDescriptor

_INTRODUCTION: Final = """\
# gRPC

Every service, call and message of the contract `goqueue/wire/grpc/v1/goqueue.proto`; made from it.
The server listens on port 9000 of this machine (`listeners.grpc`), and answers reflection and the
standard health check:

<!-- not run: needs grpcurl -->

```sh
grpcurl -plaintext localhost:9000 list
grpcurl -plaintext -d '{"topic": "orders", "messages": [{"value": "aGVsbG8="}]}' \\
  localhost:9000 goqueue.v1.PublishService/Publish
```

From Python, with the code that comes with GoQueue:

```sh
goqueue topic create orders
```

```python
import grpc

from goqueue.wire.grpc.v1 import goqueue_pb2 as pb, goqueue_pb2_grpc as stubs

with grpc.insecure_channel("127.0.0.1:9000") as channel:
    publisher = stubs.PublishServiceStub(channel)
    request = pb.PublishRequest(topic="orders", messages=[pb.NewMessage(value=b"hello")])
    print(publisher.Publish(request, timeout=30, wait_for_ready=True).results)
```

- A missing field means what its comment says, never "zero". Times are milliseconds since 1970.
  Fields are only ever added.
- A key or a token goes into the metadata: `authorization: Bearer gq_...`. The right that each call
  needs is in the tables.
- Errors have gRPC's status; what each means is in [Errors](errors.md). In a cluster every node
  takes every call: see [Clusters](../how-to/cluster.md#what-a-failover-looks-like).
- For bulk data use a Kafka client: a call costs per message, Kafka's protocol per batch.
"""

_SCALARS: Final = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}


def reference() -> str:
    """The page."""
    comments = _comments()
    lines = [_INTRODUCTION]
    for service in pb.DESCRIPTOR.services_by_name.values():
        lines += [f"## {service.name}", ""]
        if comments.get(service.name):
            lines += [comments[service.name], ""]
        lines += ["| call | takes | returns | right | |", "| --- | --- | --- | --- | --- |"]
        lines += [_call(method, comments) for method in service.methods]
        lines.append("")
    lines += ["## Messages", ""]
    for message in pb.DESCRIPTOR.message_types_by_name.values():
        lines += _message(message, comments)
    lines += ["## Enums", ""]
    for enum in pb.DESCRIPTOR.enum_types_by_name.values():
        values = ", ".join(f"`{value.name}`" for value in enum.values)
        lines += [f"### {enum.name}", "", f"{values}.", ""]
    return "\n".join(lines).rstrip() + "\n"


def _call(method: MethodDescriptor, comments: Mapping[str, str]) -> str:
    service = method.containing_service
    takes, gives = _linked(method.input_type), _linked(method.output_type)
    if method.client_streaming:
        takes = f"stream of {takes}"
    if method.server_streaming:
        gives = f"stream of {gives}"
    rights = _rights(f"/{service.full_name}/{method.name}")
    note = comments.get(f"{service.name}.{method.name}", "")
    return f"| `{method.name}` | {takes} | {gives} | {rights} | {note} |"


def _message(message: Descriptor, comments: Mapping[str, str]) -> list[str]:
    lines = [f"### {message.name}", ""]
    if comments.get(message.name):
        lines += [comments[message.name], ""]
    if not message.fields:
        return [*lines, "No fields.", ""]
    lines += ["| field | type | |", "| --- | --- | --- |"]
    for field in message.fields:
        note = comments.get(f"{message.name}.{field.name}", "")
        lines.append(f"| `{field.name}` | {_type(field)} | {note} |")
    return [*lines, ""]


def _linked(message: Descriptor) -> str:
    return f"[{message.name}](#{message.name.lower()})"


def _type(field: FieldDescriptor) -> str:
    if field.message_type is not None:
        entry = field.message_type.GetOptions().map_entry
        name = "map" if entry else _linked(field.message_type)
    elif field.enum_type is not None:
        name = f"[{field.enum_type.name}](#{field.enum_type.name.lower()})"
    else:
        name = _SCALARS[field.type]
    return f"list of {name}" if field.is_repeated and name != "map" else name


def _rights(path: str) -> str:
    return text_of(RIGHTS[path]) if path in RIGHTS else "none"


def _comments() -> dict[str, str]:
    """The comments of the contract: of services and messages, and of what is in them."""
    text = resources.files("goqueue.wire.grpc.v1").joinpath("goqueue.proto").read_text("utf-8")
    return dict(_commented(text.splitlines()))


def _commented(lines: list[str]) -> Iterator[tuple[str, str]]:
    above: list[str] = []
    inside = ""
    for raw in lines:
        line = raw.strip()
        code, _, beside = line.partition("//")
        if not code:
            above = [*above, beside.strip()] if beside and not beside.startswith(" ---") else []
            continue
        if opened := re.match(r"(?:message|service|enum) (\w+)", code):
            inside = opened[1]
            yield inside, " ".join(above).replace("|", "\\|")
        elif named := re.match(r"rpc (\w+)|.*?(\w+) = \d+", code):
            note = " ".join([*above, beside.strip()]).strip().replace("|", "\\|")
            yield f"{inside}.{named[1] or named[2]}", note
        above = []


if __name__ == "__main__":
    sys.stdout.write(reference())
