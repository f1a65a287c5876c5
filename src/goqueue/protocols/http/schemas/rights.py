"""Rights on schemas: those of the topic that a subject is named after.

A subject is `orders-value` or `orders-key` for the values and keys of topic `orders`, in whatever
context. One of another name is guarded as a topic of that name would be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.access.rights import ResourceType, Right
from goqueue.protocols.http.api.rights import TOPIC_DESCRIBE, named, within
from goqueue.schemas.contexts import Qualified

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.access.rights import Operation
    from goqueue.protocols.http.api.rights import Needs
    from goqueue.protocols.permissions import Permissions

_SUFFIXES: Final = ("-key", "-value")


def topic_of(subject: str) -> str:
    """The topic that a subject belongs to."""
    name = Qualified.of(subject).name
    for suffix in _SUFFIXES:
        if name.endswith(suffix) and name != suffix:
            return name.removesuffix(suffix)
    return name


def on_subject(operation: Operation) -> Needs:
    """A right on the topic of the subject in the path."""
    right = Right(ResourceType.TOPIC, operation)
    return named(right, "path.subject", topic_of, note="of the subject")


LISTED: Final = within(TOPIC_DESCRIBE, note="the subjects of topics that it covers")
BY_ID: Final = within(TOPIC_DESCRIBE, note="of a subject that has the schema")


def visible_subjects(may: Permissions, subjects: Iterable[str]) -> list[str]:
    """The subjects that a client may see."""
    return may.visible(TOPIC_DESCRIBE, subjects, topic_of)
