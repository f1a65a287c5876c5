"""The schema engine in a process of its own: hostile schemas and messages cost a refusal.

Two processes at most, started when they are needed: one for the registry, one for messages, so that
whoever registers schemas does not hold up those who publish.
"""

# ruff: noqa: D102 - `Engine` says what the methods do

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.errors import InvalidSchemaError
from goqueue.runtime.bounded_process import BoundedProcess, Limits, ProcessLost
from goqueue.schemas import engine_wire, formats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.schemas.engine import Message, Texts, WholeSchema
    from goqueue.schemas.engine_wire import Answer
    from goqueue.schemas.model import Level

_WORKER: Final = "goqueue.schemas.worker"
_MEMORY_BYTES: Final = 256 << 20
REGISTRY_LIMITS: Final = Limits(5.0, _MEMORY_BYTES)
"""Of all questions that one request to the registry leads to. A request that needs more is
refused."""
VALIDATION_LIMITS: Final = Limits(2.0, _MEMORY_BYTES)
"""Of one slice of a batch. A batch with a slice that needs more is refused."""


class SchemaProcess:
    """An engine that asks a child process. Blocks, so it is called in threads."""

    def __init__(self, limits: Limits) -> None:
        self._process = BoundedProcess(_WORKER, limits)
        self._goes_on = False
        self._lost: ProcessLost | None = None
        """Why the present request has no processor time left."""

    def begin(self) -> None:
        """Another request begins, with limits of its own."""
        self._goes_on = False
        self._lost = None

    @property
    def pid(self) -> int | None:
        """Of the child; None when there is none."""
        return self._process.pid

    def close(self) -> None:
        """End the child."""
        self._process.close()

    def texts(self, whole: WholeSchema) -> Texts:
        formats.check_text(whole.schema)
        return engine_wire.texts_of(self._ask("texts", [whole]))

    def differences(self, old: WholeSchema, new: WholeSchema, level: Level) -> list[str]:
        found: list[str] = self._ask("differences", [old, new], form=level.value).result
        return found

    def formatted(self, whole: WholeSchema, form: str) -> str:
        return str(self._ask("formatted", [whole], form=form).result)

    def decoded(self, whole: WholeSchema, message: Message) -> str:
        return str(self._ask("decoded", [whole], messages=[message]).result)

    def check(self, whole: WholeSchema, messages: Sequence[Message]) -> list[str | None]:
        """Of each message what is wrong with it and where; None where it fits.

        Raises:
            ProcessLost: a limit was reached.
        """
        found: list[str | None] = self._asked("check", [whole], messages=messages).result
        return found

    def _ask(
        self,
        method: str,
        wholes: Sequence[WholeSchema],
        *,
        form: str = "",
        messages: Sequence[Message] = (),
    ) -> Answer:
        try:
            return self._asked(method, wholes, form=form, messages=messages)
        except ProcessLost as lost:
            raise InvalidSchemaError(f"the schema cannot be used: {lost}") from lost

    def _asked(
        self,
        method: str,
        wholes: Sequence[WholeSchema],
        *,
        form: str = "",
        messages: Sequence[Message] = (),
    ) -> Answer:
        """Ask by the keys of schemas; with their texts where the child does not know them."""
        if self._lost is not None:
            raise self._lost
        for with_text in (False, True):
            sent = engine_wire.question(
                method, wholes, form=form, messages=messages, with_text=with_text
            )
            try:
                answer = engine_wire.answer_of(self._process.call(sent, goes_on=self._goes_on))
            except ProcessLost as lost:
                self._lost = lost
                raise
            self._goes_on = True
            if not answer.is_unknown:
                return answer
        raise AssertionError("the schema engine has lost a schema that was just sent")
