"""Which heartbeats no group could accept, for reasons that KIP-848 and Streams groups share."""

from __future__ import annotations

from typing import Any

from goqueue.groups.messages import JOINING_EPOCH, MemberHeartbeat
from goqueue.model.errors import InvalidGroupRequestError


def check_member_heartbeat(
    request: MemberHeartbeat[Any], leaving_epochs: tuple[int, ...], **texts: str | None
) -> None:
    """Refuse what is missing, empty or out of range; `texts` are further fields by name.

    Raises:
        InvalidGroupRequestError: it is.
    """
    texts |= {
        "group_id": request.group_id,
        "member_id": request.member_id,
        "rack_id": request.rack_id,
    }
    for name, text in texts.items():
        if text == "":
            what = name.replace("_", " ")
            raise InvalidGroupRequestError(f"the {what} is empty: leave it out or give one")
    if request.epoch < min(leaving_epochs):
        leaving = " or ".join(map(str, leaving_epochs))
        raise InvalidGroupRequestError(
            f"the member epoch is {request.epoch}; it is 0 to join, {leaving} to leave, else the "
            "one of the newest reply"
        )
    if request.epoch != JOINING_EPOCH:
        return
    if request.rebalance_timeout_ms < 0:
        raise InvalidGroupRequestError("the first heartbeat must give a rebalance timeout")
    if request.owned is None or request.owned:
        raise InvalidGroupRequestError(
            "the first heartbeat must list what it owns, and that must be nothing: give up all of "
            "it before joining"
        )
