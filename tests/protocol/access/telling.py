"""What an answer tells, but for the names and numbers that the client has sent itself."""

from __future__ import annotations

import re
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from support.guarded import Things


def _plain(answer: Any) -> Any:
    """Without memory views, which do not show what is in them."""
    if isinstance(answer, memoryview):
        return bytes(answer)
    if isinstance(answer, list | tuple):
        return [_plain(each) for each in answer]
    if hasattr(answer, "as_dict"):
        return {name: _plain(each) for name, each in answer.as_dict().items()}
    return answer


_NUMBER = re.compile(r"\d+")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RANDOM = re.compile(r'"(request_id|topic_id|csrf_token|producer_id|timestamp)":[^,}]*')
"""Fields of answers that are never twice the same."""


def told_alike(answer: object, things: Things) -> str:
    """The same for things that exist and for such that do not, if nothing is told of them."""
    text = answer.decode() if isinstance(answer, bytes) else str(_plain(answer))
    text = _RANDOM.sub("", text)
    names = {each for each in astuple(things) if isinstance(each, str) and len(each) > 1}
    names |= {each.rpartition(".")[2] for each in names} | {str(things.topic_id)}
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, "<name>")
    return _NUMBER.sub("#", _UUID.sub("<uuid>", text))
