"""Which version of a subject a message fits, judged as the broker judges it.

A message that names its schema is held against that one alone. One that names none is held against
all versions, and counts for the newest that it fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.schemas.formats import parse
from goqueue.schemas.frames import ID_HEADER, FrameFault, Part, frame_of, indexes_of
from goqueue.schemas.model import SchemaType, Validator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.records import Headers
    from goqueue.spark.values.registry import RegisteredSchema

NAMED: Final = "named"
"""It names a version, and fits it."""
MISFIT: Final = "misfit"
"""It names a version, and does not fit it."""
FITS: Final = "fits"
"""It names none, and fits at least one."""
NONE: Final = "none"
"""It names none, and fits none."""
FOREIGN: Final = "foreign"
"""It names a schema that is none of the subject's."""
TOMBSTONE: Final = "tombstone"
"""It has no value, which fits everything."""
FRAME_HEADERS: Final = (ID_HEADER, Part.VALUE.header)
_MAX_REASON: Final = 500


class Verdict(NamedTuple):
    """What is said of one message."""

    kind: str
    version: int | None = None
    """The one that it counts for."""
    fits: Sequence[int] = ()
    """All that it fits."""
    present: Sequence[str] = ()
    """Fields on the highest level that are there and not null."""
    reason: str | None = None
    """Why it fits none; of several versions, why not the newest."""


class Judge:
    """Holds messages against the versions of one subject."""

    def __init__(self, versions: Sequence[RegisteredSchema]) -> None:
        self._versions = versions
        self._is_protobuf = {
            each.number: each.schema.type is SchemaType.PROTOBUF for each in versions
        }
        self._by_id = {each.schema_id: each.number for each in versions}
        self._by_guid = {each.schema.guid: each.number for each in versions}
        self._validators: dict[int, Validator] = {
            each.number: parse(each.schema, each.dependencies).validator() for each in versions
        }

    def field_names(self, number: int) -> tuple[str, ...]:
        """The fields that a version knows; of Protobuf, those of the first message type."""
        return self._validators[number].field_names()

    def verdict(self, value: bytes | None, headers: Headers = ()) -> Verdict:
        """Judge one message."""
        if value is None:
            return Verdict(TOMBSTONE)
        try:
            frame = frame_of(value, headers)
        except FrameFault as fault:
            return Verdict(FOREIGN, reason=str(fault))
        if frame.schema_id is None and frame.guid is None:
            return self._unnamed(value)
        number = (
            self._by_guid.get(frame.guid)
            if frame.guid is not None
            else self._by_id.get(frame.schema_id or 0)
        )
        if number is None:
            said = frame.guid if frame.guid is not None else frame.schema_id
            unnamed = self._unnamed(value)
            if unnamed.kind == FITS and frame.in_header is None:
                return unnamed  # a plain message that only looks as if it named a schema
            return Verdict(FOREIGN, reason=f"schema {said} is none of this subject")
        payload, indexes = value[frame.begin :], [0]
        if self._is_protobuf[number] and frame.indexes_at is not None:
            holder = value if frame.in_header is None else frame.in_header
            try:
                indexes, begin = indexes_of(holder, frame.indexes_at)
            except FrameFault as fault:
                return Verdict(MISFIT, number, reason=str(fault))
            payload = value[begin:] if frame.in_header is None else value
        return self._named(number, payload, indexes)

    def _named(self, number: int, payload: bytes, indexes: list[int]) -> Verdict:
        validator = self._validators[number]
        fault = validator.check(payload, indexes)
        if fault is not None:
            return Verdict(MISFIT, number, reason=fault[:_MAX_REASON])
        return Verdict(NAMED, number, [number], validator.present(payload, indexes))

    def _unnamed(self, value: bytes) -> Verdict:
        fits: list[int] = []
        reason = None
        for number, validator in reversed(self._validators.items()):
            fault = validator.check(value)
            if fault is None:
                fits.append(number)
            elif reason is None:
                reason = fault[:_MAX_REASON]
        if not fits:
            return Verdict(NONE, reason=reason)
        return Verdict(FITS, fits[0], fits, self._validators[fits[0]].present(value))
