"""proto_breaking.py BEFORE NOW: what a client of one contract can no longer do with another.

Both are files of descriptors as protoc writes them. Compared are names, numbers, types and labels
of fields, values of enums, and the requests, answers and streams of methods.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Contract = dict[str, str]
"""What may not change, by its full name."""


def contract_of(files: FileDescriptorSet) -> Contract:
    """Everything that a client can depend on."""
    return {name: what for file in files.file for name, what in _of_file(file)}


def _of_file(file: FileDescriptorProto) -> Iterator[tuple[str, str]]:
    yield from _of_enums(file.package, file.enum_type)
    for message in file.message_type:
        yield from _of_message(file.package, message)
    for service in file.service:
        for method in service.method:
            streams = f"{method.client_streaming:d}{method.server_streaming:d}"
            shape = f"{method.input_type} to {method.output_type}, streams {streams}"
            yield f"{file.package}.{service.name}.{method.name}", shape


def _of_message(scope: str, message: DescriptorProto) -> Iterator[tuple[str, str]]:
    name = f"{scope}.{message.name}"
    yield name, "message"
    for field in message.field:
        shape = f"number {field.number}, type {field.type} {field.type_name}, label {field.label}"
        yield f"{name}.{field.name}", shape
    yield from _of_enums(name, message.enum_type)
    for nested in message.nested_type:
        yield from _of_message(name, nested)


def _of_enums(scope: str, enums: Iterable[EnumDescriptorProto]) -> Iterator[tuple[str, str]]:
    for enum in enums:
        for value in enum.value:
            yield f"{scope}.{enum.name}.{value.name}", f"value {value.number}"


def broken(before: Contract, now: Contract) -> list[str]:
    """What was there before and is gone or different."""
    changes = []
    for name, was in before.items():
        if name not in now:
            changes.append(f"{name} is gone ({was})")
        elif now[name] != was:
            changes.append(f"{name} was {was}, is {now[name]}")
    return changes


def _read(path: str) -> Contract:
    return contract_of(FileDescriptorSet.FromString(Path(path).read_bytes()))


if __name__ == "__main__":
    found = broken(_read(sys.argv[1]), _read(sys.argv[2]))
    sys.exit("clients of the earlier contract break:\n  " + "\n  ".join(found) if found else 0)
