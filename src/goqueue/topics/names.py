"""What a topic may be called."""

from __future__ import annotations

import re
from typing import Final

from goqueue.model.errors import InvalidTopicNameError

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
