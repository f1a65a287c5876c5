"""Rights on schemas: those of the topic that a subject is named after.

A subject is `orders-value` or `orders-key` for the values and keys of topic `orders`, in whatever
context. One of another name is guarded as a topic of that name would be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.access.rights import ResourceType, Right
from goqueue.protocols.http.api.rights import TOPIC_DESCRIBE, Needs, all_of, named, within
from goqueue.schemas.contexts import topic_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.access.rights import Operation
    from goqueue.protocols.http.api.places import Arguments
    from goqueue.protocols.permissions import Permissions


def on_subject(operation: Operation) -> Needs:
    """A right on the topic of the subject in the path."""
    right = Right(ResourceType.TOPIC, operation)
    return named(right, "path.subject", topic_of, note="of the subject")


LISTED: Final = within(TOPIC_DESCRIBE, note="the subjects of topics that it covers")
BY_ID: Final = within(TOPIC_DESCRIBE, note="of a subject that has the schema")


class _References(Needs):
    """A right on the topics of the subjects that a schema refers to: it shows what they have."""

    def require(self, may: Permissions, arguments: Arguments) -> None:
        for each in arguments["body"].references or ():
            may.require(TOPIC_DESCRIBE, topic_of(each.subject))


_REFERENCES: Final = _References(TOPIC_DESCRIBE, note="of each subject that the schema refers to")


def with_schema(operation: Operation) -> Needs:
    """A right on the topic of the subject in the path, for a request whose body is a schema."""
    return all_of(on_subject(operation), _REFERENCES)


def visible_subjects(may: Permissions, subjects: Iterable[str]) -> list[str]:
    """The subjects that a client may see."""
    return may.visible(TOPIC_DESCRIBE, subjects, topic_of)
