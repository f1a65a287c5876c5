"""What a topic may be called, and what is said of an id that none has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import InvalidTopicNameError, UnknownTopicIdError

if TYPE_CHECKING:
    from uuid import UUID

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def check_name(name: str) -> None:
    """Hold a name to the rule, whichever protocol it came by.

    Raises:
        InvalidTopicNameError: saying what the rule is.
    """
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        shown = name if len(name) <= 60 else name[:60] + "…"
        raise InvalidTopicNameError(
            f"{shown!r} cannot be a topic's name: 1 to 249 letters, digits, '.', '_' or '-', and "
            "not '.' or '..'"
        )


def unknown_topic_id(topic_id: UUID) -> UnknownTopicIdError:
    """What is said of an id that no topic has, also to whom its topic is hidden."""
    return UnknownTopicIdError(f"there is no topic with id {topic_id}: look it up again")
