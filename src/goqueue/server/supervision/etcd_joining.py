"""A member of etcd without its data: the others let go of the old one and take in a new one.

A member must not forget what it has voted for and acknowledged. One that starts empty under its old
id could help to elect a leader without what is committed. So the old member is removed and another
is added at the same address, before the empty etcd is started; for that most of the others have to
answer. The first formation of a cluster is told from this by the others: a member that has run
before has told them where its clients find it.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import TYPE_CHECKING, Any

from goqueue.server.supervision.etcd_gateway import FAILURES, ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.server.etcd.command import EtcdMember

logger = logging.getLogger(__name__)


class Joining(Enum):
    """How an etcd with an empty folder starts."""

    FORMING = "forming"
    """As one of the first members of a cluster."""
    REPLACED = "replaced"
    """As a new member of a cluster that exists."""
    WAIT = "wait"
    """Not yet: the others have to take it in first."""


def join_again(member: EtcdMember, others: Sequence[str], *, must_join: bool) -> Joining:
    """Ask the others, at their URLs for clients, how to start; they may have to take it in anew.

    `must_join` of a node that was part of a cluster before: it never forms one.
    """
    unanswered = Joining.WAIT if must_join else Joining.FORMING
    for url in others:
        try:
            members = ask(url, member.tls, "/v3/cluster/member/list")["members"]
        except FAILURES as error:
            logger.debug("etcd: %s does not say who the members are: %s", url, error)
            continue
        try:
            return _joined(url, member, members, must_join=must_join)
        except FAILURES as error:
            logger.warning("etcd: %s does not take this node in again: %s", url, error)
            unanswered = Joining.WAIT
    return unanswered


def _joined(
    url: str, member: EtcdMember, members: Sequence[dict[str, Any]], *, must_join: bool
) -> Joining:
    own_url = member.peers[member.name]
    own = next((each for each in members if own_url in each.get("peerURLs", ())), None)
    if own is None:
        known = {each for found in members for each in found.get("peerURLs", ())}
        if not known <= set(member.peers.values()):
            return Joining.FORMING  # another cluster, which etcd refuses with its own words
    elif not own.get("name"):
        return Joining.REPLACED  # it was taken in, and has not started since
    elif not own.get("clientURLs") and not must_join:
        return Joining.FORMING  # it belongs to the first members, and has never started
    else:
        logger.warning("etcd: what %s had stored is lost; it is replaced", member.name)
        ask(url, member.tls, "/v3/cluster/member/remove", {"ID": own["ID"]})
    ask(url, member.tls, "/v3/cluster/member/add", {"peerURLs": [own_url]})
    logger.info("etcd: %s is a new member, and fetches everything from the others", member.name)
    return Joining.REPLACED
