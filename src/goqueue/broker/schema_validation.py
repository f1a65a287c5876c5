"""Messages held against their schemas before they are stored, where a topic asks for it.

A topic's subject is `{topic}-value`, as Confluent's serializers call it, or where that has no
version the topic's own name. A tombstone fits every schema.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.broker.topic_setting_table import SchemaValidation
from goqueue.metrics import names
from goqueue.model.errors import InvalidSchemaError, SchemaValidationError
from goqueue.records import admit
from goqueue.schemas.frames import FrameFault, frame_of, indexes_of
from goqueue.schemas.model import SchemaType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.broker.schemas import Schemas
    from goqueue.broker.topics import Topic
    from goqueue.metrics.registry import Metrics
    from goqueue.records import Record
    from goqueue.runtime.clock import Clock
    from goqueue.schemas.frames import Frame
    from goqueue.schemas.model import Schema, Validator

MAX_VALIDATORS: Final = 1000
"""That are kept ready; of more, the one not used for the longest is made again."""


class _Subject(NamedTuple):
    """What a topic's messages are held against."""

    name: str
    latest_id: int | None
    """None where there is nothing to hold them against."""
    ids: frozenset[int]
    """The schemas that may be named."""


class SchemaValidator:
    """Checks batches on their way in."""

    def __init__(self, schemas: Schemas, clock: Clock, metrics: Metrics) -> None:
        self._schemas = schemas
        self._clock = clock
        self._metrics = metrics
        self._latency = metrics.histogram(names.SCHEMA_VALIDATION_LATENCY)
        self._validators: OrderedDict[int, tuple[Schema, Validator]] = OrderedDict()
        self._subjects: dict[str, _Subject] = {}
        """By topic, of one generation of the registry."""
        self._generation = -1

    def check(self, topic: Topic, batch: memoryview) -> None:
        """Refuse a batch with messages that do not fit.

        Raises:
            SchemaValidationError: with each message that does not, and why.
            BatchError: the batch cannot be read.
        """
        started_s = self._clock.monotonic_s()
        subject = self._subject(topic.name)
        needs_id = topic.settings.schema_validation is SchemaValidation.ID
        if subject.latest_id is None and not needs_id:
            return
        records = admit(batch)
        reasons = self._reasons(subject, records, needs_id=needs_id)
        self._latency.observe(self._clock.monotonic_s() - started_s)
        self._count(topic.name, "valid", len(records) - len(reasons))
        self._count(topic.name, "invalid", len(reasons))
        if reasons:
            first, more = next(iter(reasons.values())), len(reasons) - 1
            said = f"{first} (and {more} more do not fit)" if more else first
            raise SchemaValidationError(said, reasons)

    def _count(self, topic: str, result: str, count: int) -> None:
        if count:
            self._metrics.counter(names.SCHEMA_VALIDATIONS, topic, result).add(count)

    def _reasons(
        self, subject: _Subject, records: Sequence[Record], *, needs_id: bool
    ) -> dict[int, str]:
        reasons: dict[int, str] = {}
        for number, record in enumerate(records):
            if record.value is None:
                continue
            try:
                reason = self._reason(subject, record, needs_id=needs_id)
            except FrameFault as fault:
                reason = str(fault)
            if reason is not None:
                reasons[number] = reason
        return reasons

    def _reason(self, subject: _Subject, record: Record, *, needs_id: bool) -> str | None:
        value = record.value or b""
        frame = frame_of(value, record.headers)
        schema_id = self._named(frame)
        if schema_id is None and frame.guid is None:
            if needs_id:
                return "the message names no schema: no id before it, and none in a header"
            return self._misfit(subject, subject.latest_id, value, (0,))
        if schema_id not in subject.ids:
            if self._may_be_bare(subject, frame, schema_id, needs_id=needs_id):
                return self._misfit(subject, subject.latest_id, value, (0,))
            return f"schema {frame.guid or schema_id} is not one of subject {subject.name!r}"
        indexes: Sequence[int] = (0,)
        begin = frame.begin
        schema = self._schemas.registry.state.schemas[schema_id]
        if schema.type is SchemaType.PROTOBUF and frame.indexes_at is not None:
            indexes, after = indexes_of(frame.in_header or value, frame.indexes_at)
            begin = frame.begin if frame.in_header else after
        return self._misfit(subject, schema_id, value[begin:] if begin else value, indexes)

    def _named(self, frame: Frame) -> int | None:
        if frame.guid is None:
            return frame.schema_id
        return self._schemas.registry.state.guids.get(frame.guid, -1)

    def _may_be_bare(
        self, subject: _Subject, frame: Frame, schema_id: int | None, *, needs_id: bool
    ) -> bool:
        """An Avro message without an id may begin with a zero, too. Others never do."""
        state = self._schemas.registry.state
        if needs_id or frame.in_header is not None or not frame.begin or schema_id in state.schemas:
            return False
        latest = state.schemas.get(subject.latest_id or 0)
        return latest is not None and latest.type is SchemaType.AVRO

    def _misfit(
        self, subject: _Subject, schema_id: int | None, payload: bytes, indexes: Sequence[int]
    ) -> str | None:
        assert schema_id is not None  # whoever has no subject's version names a schema, or passes
        try:
            fault = self._validator(schema_id).check(payload, indexes)
        except InvalidSchemaError as error:
            return f"schema {schema_id} cannot be used: {error}"
        if fault is None:
            return None
        return f"does not fit schema {schema_id} of subject {subject.name!r} at {fault}"

    # --- What is kept ----------------------------------------------------------------------------

    def _validator(self, schema_id: int) -> Validator:
        registry = self._schemas.registry
        schema = registry.schema(schema_id)
        known = self._validators.get(schema_id)
        if known is None or known[0] is not schema:
            known = self._validators[schema_id] = (schema, registry.parsed(schema_id).validator())
            if len(self._validators) > MAX_VALIDATORS:
                self._validators.popitem(last=False)
        self._validators.move_to_end(schema_id)
        return known[1]

    def _subject(self, topic: str) -> _Subject:
        registry = self._schemas.registry
        if self._generation != registry.generation:
            self._generation = registry.generation
            self._subjects.clear()
        subject = self._subjects.get(topic)
        if subject is None:
            subject = self._subjects[topic] = self._find(topic)
        return subject

    def _find(self, topic: str) -> _Subject:
        subjects = self._schemas.registry.state.subjects
        for name in (f"{topic}-value", topic):
            living = [each for each in subjects.get(name, {}).values() if not each.is_deleted]
            if living:
                ids = frozenset(each.schema_id for each in living)
                return _Subject(name, living[-1].schema_id, ids)
        return _Subject(f"{topic}-value", None, frozenset())
