"""Messages held against their schemas before they are stored, where a topic asks for it.

They are checked in a process of its own (`schema_process`), in slices: whoever sends a large batch
holds up others for the time of a slice, and the event loop not at all.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from goqueue.metrics import names
from goqueue.model.errors import InvalidSchemaError, SchemaValidationError
from goqueue.model.tuples import NamedTuple
from goqueue.publishing.requests import PublishRequest, refusal
from goqueue.publishing.rewrite import records_of
from goqueue.records import Record, admit
from goqueue.runtime.bounded_process import ProcessLost
from goqueue.runtime.tasks import in_thread
from goqueue.schemas.frames import FrameFault, Part
from goqueue.schemas.process import VALIDATION_LIMITS, SchemaProcess
from goqueue.schemas.subjects import Checkable, Misnamed, Subject, named_by, subjects_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from goqueue.metrics.registry import Metrics
    from goqueue.partitions.batch_opener import BatchOpener
    from goqueue.runtime.clock import Clock
    from goqueue.schemas.engine import Message, WholeSchema
    from goqueue.schemas.registry import Registry
    from goqueue.schemas.service import Schemas
    from goqueue.topics.catalogue import Topic
    from goqueue.topics.settings import TopicSettings

_log = logging.getLogger(__name__)

KEPT_SCHEMAS: Final = 1000
"""That are at hand with all they stand on; beyond that they are put together again."""
SLICE_MESSAGES: Final = 500
SLICE_BYTES: Final = 256 << 10
"""What is checked at once; a message that is larger is a slice by itself."""
AVOIDED_S: Final = 10.0
"""How long a schema is not used after a check with it has reached a limit. Messages that name it
are refused meanwhile, so that they cannot keep the process busy."""


class _Job(NamedTuple):
    """A key or a value that is to be checked."""

    number: int
    subject: Subject
    message: Message


class SchemaValidator:
    """Checks messages on their way in."""

    def __init__(
        self, schemas: Schemas, opener: BatchOpener, clock: Clock, metrics: Metrics
    ) -> None:
        self._schemas = schemas
        self._opener = opener
        self._clock = clock
        self._metrics = metrics
        self._latency = metrics.histogram(names.SCHEMA_VALIDATION_LATENCY)
        self._process = SchemaProcess(VALIDATION_LIMITS)
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="schemas")
        self._wholes: OrderedDict[int, WholeSchema] = OrderedDict()
        """By id, of one generation of the registry."""
        self._subjects: dict[str, tuple[TopicSettings, list[Subject]]] = {}
        """By topic, of one generation; with the settings that they follow from."""
        self._generation = -1
        self._avoided: dict[bytes, tuple[float, str]] = {}
        """Schemas with which a check has reached a limit: until when they are avoided, and why.
        One a check, and a check takes its time."""

    async def stop(self) -> None:
        """End the process; what is being checked is refused."""
        await asyncio.get_running_loop().run_in_executor(None, self._process.close)
        self._executor.shutdown()

    async def check(self, topic: Topic, request: PublishRequest) -> SchemaValidationError | None:
        """Why a batch is refused, with each message that does not fit; None if all of them do.

        Raises:
            BatchError: the batch cannot be read.
        """
        if not self._subjects_of(topic):
            return None
        return refusal(await self.misfits(topic, await self._records(request)))

    async def _records(self, request: PublishRequest) -> list[Record]:
        """What a batch holds; a large one is opened in a thread, if it was not opened before."""
        if request.records is not None:
            return records_of(request.batch, request.records)
        return await self._opener.run(lambda room: admit(request.batch, room=room))

    async def misfits(self, topic: Topic, messages: Sequence[Checkable]) -> dict[int, str]:
        """The numbers of messages that do not fit, and why each does not."""
        subjects = self._subjects_of(topic)
        if not subjects:
            return {}
        started_s = self._clock.monotonic_s()
        generation = self._schemas.registry.generation
        reasons = await self._reasons(subjects, messages)
        if reasons and await self._schemas.has_changed(generation):
            reasons = await self._reasons(self._subjects_of(topic), messages)
        self._latency.observe(self._clock.monotonic_s() - started_s)
        self._count(topic.name, "valid", len(messages) - len(reasons))
        self._count(topic.name, "invalid", len(reasons))
        return dict(sorted(reasons.items()))

    async def _reasons(
        self, subjects: Sequence[Subject], messages: Sequence[Checkable]
    ) -> dict[int, str]:
        reasons: dict[int, str] = {}
        for numbers in _slices(messages):
            await self._check_slice(subjects, messages, numbers, reasons)
        return reasons

    def _count(self, topic: str, result: str, count: int) -> None:
        if count:
            self._metrics.counter(names.SCHEMA_VALIDATIONS, topic, result).add(count)

    async def _check_slice(
        self,
        subjects: Sequence[Subject],
        messages: Sequence[Checkable],
        numbers: Sequence[int],
        reasons: dict[int, str],
    ) -> None:
        state = self._schemas.registry.state
        jobs: defaultdict[int, list[_Job]] = defaultdict(list)
        for number in numbers:
            for subject in subjects:
                try:
                    found = named_by(state, subject, messages[number])
                except (Misnamed, FrameFault) as fault:
                    reasons.setdefault(number, str(fault))
                else:
                    if found is not None:
                        jobs[found[0]].append(_Job(number, subject, found[1]))
        for schema_id, together in jobs.items():
            await self._run(schema_id, together, reasons)

    async def _run(self, schema_id: int, jobs: list[_Job], reasons: dict[int, str]) -> None:
        """Check what is held against one schema."""
        try:
            faults = await self._faults(schema_id, [job.message for job in jobs])
        except (InvalidSchemaError, ProcessLost) as error:
            for job in jobs:
                reasons.setdefault(job.number, f"schema {schema_id} cannot be used: {error}")
            return
        for (number, subject, _), fault in zip(jobs, faults, strict=True):
            if fault is not None:
                what = "the key " if subject.part is Part.KEY else ""
                said = f"does not fit schema {schema_id} of subject {subject.name!r} at {fault}"
                reasons.setdefault(number, what + said)

    async def _faults(self, schema_id: int, messages: list[Message]) -> list[str | None]:
        whole = self._whole(schema_id)
        until_s, why = self._avoided.get(whole.key, (0.0, ""))
        if self._clock.monotonic_s() < until_s:
            raise ProcessLost(why)
        try:
            return await in_thread(self._executor, partial(self._ask, whole, messages))
        except ProcessLost as lost:
            now_s = self._clock.monotonic_s()
            _log.warning("validation with schema %d was interrupted: %s", schema_id, lost)
            self._avoided = {key: each for key, each in self._avoided.items() if each[0] > now_s}
            said = f"{lost} (tried again {AVOIDED_S:g} s after that)"
            self._avoided[whole.key] = (now_s + AVOIDED_S, said)
            raise

    def _ask(self, whole: WholeSchema, messages: list[Message]) -> list[str | None]:
        """Runs in the thread that alone speaks with the process."""
        self._process.begin()
        return self._process.check(whole, messages)

    # --- What is kept ----------------------------------------------------------------------------

    def _subjects_of(self, topic: Topic) -> list[Subject]:
        registry = self._current()
        settings, found = self._subjects.get(topic.name, (None, []))
        if settings is not topic.settings:
            found = subjects_of(registry, topic)
            self._subjects[topic.name] = (topic.settings, found)
        return found

    def _whole(self, schema_id: int) -> WholeSchema:
        registry = self._current()
        whole = self._wholes.get(schema_id)
        if whole is None:
            whole = self._wholes[schema_id] = registry.whole(schema_id)
            if len(self._wholes) > KEPT_SCHEMAS:
                self._wholes.popitem(last=False)
        return whole

    def _current(self) -> Registry:
        """The registry; what was kept of an earlier generation of it is gone."""
        registry = self._schemas.registry
        if self._generation != registry.generation:
            self._generation = registry.generation
            self._subjects.clear()
            self._wholes.clear()  # an imported schema may get an id that another one has had
        return registry


def _slices(messages: Sequence[Checkable]) -> Iterator[list[int]]:
    """The numbers of messages, as many at a time as are checked at once."""
    numbers: list[int] = []
    size_bytes = 0
    for number, message in enumerate(messages):
        size_bytes += len(message.value or b"") + len(message.key or b"")
        if numbers and (len(numbers) >= SLICE_MESSAGES or size_bytes > SLICE_BYTES):
            yield numbers
            numbers, size_bytes = [], len(message.value or b"") + len(message.key or b"")
        numbers.append(number)
    if numbers:
        yield numbers
