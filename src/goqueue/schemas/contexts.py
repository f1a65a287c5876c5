"""Contexts: registries within the registry, each with its own subjects and its own ids.

A subject of another context than the default one is written `:.context:subject`, everywhere where a
subject may be named; `:.context:` is the context itself.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import CorruptSchemaStateError, InvalidSubjectError
from goqueue.model.tuples import NamedTuple
from goqueue.schemas.state import DEFAULT_CONTEXT, Entry, RegistryState, Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


ANY_CONTEXT: Final = ":*:"
"""A prefix of subjects that stands for all contexts."""
_SUFFIXES: Final = ("-key", "-value")
"""Of the subjects for the keys and the values of a topic."""
_IN_KEY: Final = {"schema": 1, "ids": 0}
"""Where keys of entries that name no subject have their context, if it is not the default."""


class Qualified(NamedTuple):
    """The two parts of a subject's name."""

    context: str
    name: str
    """Empty where the context itself is meant."""

    @classmethod
    def of(cls, subject: str) -> Qualified:
        """Take a name apart. One that only looks like a qualified name is one of the default."""
        if subject.startswith(f":{DEFAULT_CONTEXT}"):
            context, colon, name = subject[1:].partition(":")
            if colon:
                return cls(context, name)
        return cls(DEFAULT_CONTEXT, subject)

    @property
    def full(self) -> str:
        """The one way in which the registry writes it."""
        if self.context == DEFAULT_CONTEXT and self.name:
            return self.name
        return f":{self.context}:{self.name}"


def subject_of(given: str) -> str:
    """A subject, written in the one way."""
    return Qualified.of(given).full


def topic_of(subject: str) -> str:
    """The topic that a subject belongs to, in whatever context."""
    name = Qualified.of(subject).name
    for suffix in _SUFFIXES:
        if name.endswith(suffix) and name != suffix:
            return name.removesuffix(suffix)
    return name


def in_context(subject: str, of: str) -> str:
    """A subject that a schema of another subject names: of the same context, if it says none."""
    if subject.startswith(f":{DEFAULT_CONTEXT}"):
        return subject_of(subject)
    return Qualified(Qualified.of(of).context, subject).full


def context_of(text: str) -> str:
    """A context, however it is written: `.staging`, `:.staging:` or `staging`.

    Raises:
        InvalidSubjectError: there can be none of that name.
    """
    name = text.strip(":")
    if not name.startswith("."):
        name = f".{name}"
    if ":" in name or not name.isprintable():
        raise InvalidSubjectError(f"The specified context '{text[:80]}' is not valid")
    return name


class ContextStates:
    """The state of each context; that of the default one is always there."""

    def __init__(self) -> None:
        self.by_context: dict[str, RegistryState] = {DEFAULT_CONTEXT: RegistryState()}

    def of(self, subject: str) -> RegistryState:
        """The state that a subject belongs to; an empty one where its context has none."""
        return self.of_context(Qualified.of(subject).context)

    def of_context(self, context: str) -> RegistryState:
        """The state of a context; an empty one where it has none."""
        return self.by_context.get(context) or RegistryState(context)

    def apply(self, entries: Iterable[Entry]) -> None:
        """Take in what was stored.

        Raises:
            CorruptSchemaStateError: an entry is none of ours.
        """
        for key, value in entries:
            try:
                kind, *names = json.loads(key)
                context = self._context(kind, names)
                state = self.by_context.get(context)
                if state is None:
                    state = self.by_context[context] = RegistryState(context)
                state.change(kind, names, None if value is None else json.loads(value))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise CorruptSchemaStateError(f"no entry of the registry: {key[:80]!r}") from error

    @staticmethod
    def _context(kind: str, names: list[Any]) -> str:
        """The context of an entry; what is left in `names` is the rest of its key."""
        at = _IN_KEY.get(kind)
        if at is not None:
            return names.pop(at) if len(names) > at else DEFAULT_CONTEXT
        if names[0] is None:
            return DEFAULT_CONTEXT
        context, name = Qualified.of(names[0])
        if not name:
            names[0] = None  # a setting of the context itself
        return context

    def dump(self) -> Iterator[Entry]:
        """Everything, as entries that `apply` would make it of again."""
        for state in self.by_context.values():
            yield from state.dump()

    def check_invariants(self) -> None:
        """Raise `InvariantError` when the parts contradict each other."""
        for state in self.by_context.values():
            state.check_invariants(lambda subject: self.of(subject).subjects)

    @property
    def used(self) -> list[str]:
        """The contexts that have subjects, and the default one."""
        return [
            context
            for context, state in sorted(self.by_context.items())
            if state.subjects or context == DEFAULT_CONTEXT
        ]

    def subjects(self, prefix: str) -> Iterator[tuple[str, dict[int, Version]]]:
        """The subjects whose names begin so, with their versions.

        Nothing, or `:*:`, stands for all contexts.
        """
        anywhere = not prefix or prefix.startswith(ANY_CONTEXT)
        wanted = Qualified.of(prefix.removeprefix(ANY_CONTEXT))
        for context, state in self.by_context.items():
            if anywhere or context == wanted.context:
                for subject, versions in state.subjects.items():
                    if Qualified.of(subject).name.startswith(wanted.name):
                        yield subject, versions

    @property
    def version_count(self) -> int:
        """Of all subjects together."""
        return sum(
            len(versions)
            for state in self.by_context.values()
            for versions in state.subjects.values()
        )
