"""Paths below `/contexts/{context}`: those of the registry, for one context of it.

As in Confluent's registry they are another way to write paths with qualified subjects, and are
written so before anything else looks at them.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from goqueue.model.errors import InvalidSubjectError
from goqueue.schemas.contexts import context_of

_BEFORE: Final = frozenset(("v1", "schemas"))
"""What paths of the registry may begin with."""
_BY_SUBJECT: Final = frozenset(("subjects", "config", "mode"))
"""The steps behind which a subject stands."""
_LONGEST_PREFIX: Final = 32
"""A context is named in the first steps of a path."""


def without_context(target: bytes) -> bytes:
    """The same request with qualified subjects; as it is, if it names no context."""
    if b"/contexts/" not in target[:_LONGEST_PREFIX]:  # cheap, since every request is asked
        return target
    path, _, query = target.decode("latin-1").partition("?")
    steps = path.strip("/").split("/")
    at = next((at for at, step in enumerate(steps) if step not in _BEFORE), 0)
    if steps[at] != "contexts" or len(steps) < at + 3:
        return target
    try:
        prefix = f":{context_of(unquote(steps[at + 1]))}:"
    except InvalidSubjectError:
        return target  # there is nothing at such a path
    steps = [*steps[:at], *_qualified(steps[at + 2 :], prefix)]
    query = _with_subject(steps[at:], query, prefix)
    return ("/" + "/".join(steps) + ("?" + query if query else "")).encode("latin-1")


def _qualified(steps: list[str], prefix: str) -> list[str]:
    """The path with its subject qualified, if it has one."""
    for at, step in enumerate(steps):
        if step in _BY_SUBJECT:
            if len(steps) > at + 1:
                subject = quote(prefix, safe="") + steps[at + 1]
                return [*steps[: at + 1], subject, *steps[at + 2 :]]
            if step != "subjects":
                return [*steps, quote(prefix, safe="")]  # the setting of the context itself
    return steps


def _with_subject(steps: list[str], query: str, prefix: str) -> str:
    """The query, where it is that which says what is asked for."""
    if steps in (["subjects"], ["schemas"]):
        name = "subjectPrefix"
    elif steps[:2] == ["schemas", "ids"]:
        name = "subject"
    else:
        return query
    given = dict(parse_qsl(query, keep_blank_values=True))
    given[name] = prefix + given.get(name, "")
    return urlencode(given)
