"""Moving the leadership of etcd away from a member that is about to stop.

etcd would do it itself, but only when all watches of its clients have ended, which those of the
other nodes do not. Without it the others find out after an election timeout.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from goqueue.server.supervision.etcd_gateway import FAILURES, ask

if TYPE_CHECKING:
    from goqueue.server.etcd.command import EtcdTls

logger = logging.getLogger(__name__)

_TRANSFERS: Final = 2
"""Members that are asked to take over, one after the other."""


def move_leadership(url: str, tls: EtcdTls | None) -> None:
    """Let another member lead, if the one at `url` does; whatever fails is left to an election."""
    try:
        header = ask(url, tls, "/v3/maintenance/status")
        own = header["header"]["member_id"]
        if header.get("leader") != own:
            return
        members = ask(url, tls, "/v3/cluster/member/list")["members"]
    except FAILURES as error:
        logger.info("etcd: not asked whether it leads: %s", error)
        return
    others = [each for each in members if each["ID"] != own and not each.get("isLearner")]
    for member in others[:_TRANSFERS]:
        try:
            ask(url, tls, "/v3/maintenance/transfer-leadership", {"targetID": member["ID"]})
        except FAILURES as error:
            logger.info("etcd: %s does not take over: %s", member.get("name"), error)
        else:
            logger.info("etcd: %s leads now", member.get("name"))
            return
