"""Makes `goqueue/wire/kafka/messages.txt` from kio's classes: `make messages`.

kio describes every version of every message as a class of its own, and importing one takes
milliseconds. The file has a line a message, with the versions that each field is in.
"""

from __future__ import annotations

import dataclasses
import sys
from datetime import timedelta
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

import msgspec
from kio.schema.index import api_key_map

import goqueue.wire.kafka
from support.kio_twin import LOADERS, TIMES, every_message

FILE = Path(goqueue.wire.kafka.__file__).with_name("messages.txt")
HEADING = "# Kafka's messages, made by `make messages`; schemas.py says what the words mean.\n"


def file_text() -> str:
    by_message: dict[tuple[int, str], dict[int, Any]] = {}
    for key, version, direction in every_message():
        entity = LOADERS[direction](key, version)
        by_message.setdefault((key, direction), {})[version] = entity
    lines = [_line(*message, by_message[message]) for message in sorted(by_message)]
    return HEADING + "".join(lines)


def _line(key: int, direction: str, entities: dict[int, Any]) -> str:
    versions = sorted(entities)
    words = (
        key,
        api_key_map[key],
        direction,
        versions[0],
        versions[-1],
        _first(version for version in versions if entities[version].__flexible__),
        _first(v for v in versions if entities[v].__header_schema__.__flexible__),
        msgspec.json.encode(_fields(entities)).decode(),
    )
    return " ".join(map(str, words)) + "\n"


def _first(versions: Any) -> int:
    return min(versions, default=-1)


def _fields(entities: dict[int, Any]) -> list[dict[str, Any]]:
    """The fields of all versions in one order: each is behind the one before it."""
    merged: list[dict[str, Any]] = []
    found: dict[bytes, dict[int, Any]] = {}
    for version, entity in sorted(entities.items()):
        place = 0
        for field in dataclasses.fields(entity):
            said, inner = _said(field)
            if said not in merged:
                merged.insert(place, said)
            place = merged.index(said) + 1
            found.setdefault(msgspec.json.encode(said), {})[version] = inner
    return [_with_versions(said, found[msgspec.json.encode(said)]) for said in merged]


def _with_versions(said: dict[str, Any], inner: dict[int, Any]) -> dict[str, Any]:
    versions = {"from": min(inner), "to": max(inner)}
    assert len(inner) == versions["to"] - versions["from"] + 1, "a field that was away for a while"
    nested = {"fields": _fields(inner)} if said["kind"] == "struct" else {}
    return {**said, **versions, **nested}


def _said(field: dataclasses.Field[Any]) -> tuple[dict[str, Any], Any]:
    """What a field is in one version, and the class of its struct."""
    kind = field.metadata.get("kafka_type", "struct")
    inner, is_array, nullable = _unwrap(field.type)
    said: dict[str, Any] = {
        "name": f"{field.name}_ms" if kind in TIMES else field.name,
        "kind": kind,
    }
    if is_array:
        said["array"] = True
    if nullable:
        said["nullable"] = True
    if "tag" in field.metadata:
        said["tag"] = field.metadata["tag"]
    if field.default is not dataclasses.MISSING:
        said["default"] = _plain(field.default)
    return said, inner


def _plain(default: Any) -> Any:
    if isinstance(default, timedelta):
        return default // timedelta(milliseconds=1)
    # A struct's default is made of its fields' defaults; kio has no other.
    return None if dataclasses.is_dataclass(default) else default


def _unwrap(annotation: Any) -> tuple[Any, bool, bool]:
    """The innermost type of an annotation, whether it is an array, and whether it may be null."""
    nullable = NoneType in get_args(annotation)
    if nullable:
        annotation = next(kind for kind in get_args(annotation) if kind is not NoneType)
    if get_origin(annotation) is not tuple:
        return annotation, False, nullable
    inner = get_args(annotation)[0]
    if NoneType in get_args(inner):
        inner = next(kind for kind in get_args(inner) if kind is not NoneType)
    return inner, True, nullable


if __name__ == "__main__":
    FILE.write_text(file_text())
    sys.stdout.write(f"{FILE}: {FILE.stat().st_size} bytes\n")
