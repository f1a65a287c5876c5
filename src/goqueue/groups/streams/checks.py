"""Which heartbeats of the Streams protocol are refused before the group looks at its members."""

from __future__ import annotations

from typing import Final

from goqueue.groups.messages import JOINING_EPOCH, LEAVING_EPOCH, StreamsHeartbeat
from goqueue.groups.reconciled.checks import check_member_heartbeat
from goqueue.groups.streams.topology import check_topology
from goqueue.model.errors import InvalidGroupRequestError

_MAX_TAGS: Final = 100
"""Client tags of one member; a member with more is refused."""


def check_streams_heartbeat(request: StreamsHeartbeat) -> None:
    """Refuse a heartbeat that no group could accept.

    Raises:
        InvalidGroupRequestError: a field is missing, empty or out of range.
        InvalidTopologyError: the topology contradicts itself.
    """
    check_member_heartbeat(request, (LEAVING_EPOCH,), process_id=request.process_id)
    if request.instance_id is not None:
        raise InvalidGroupRequestError(
            f"instance id {request.instance_id!r}: Streams groups have no static members; remove "
            "group.instance.id or set group.protocol=classic"
        )
    if request.tags is not None and len(request.tags) > _MAX_TAGS:
        raise InvalidGroupRequestError(f"{len(request.tags)} client tags, at most {_MAX_TAGS}")
    if request.epoch == JOINING_EPOCH:
        _check_joining(request)
    elif request.topology is not None:
        raise InvalidGroupRequestError("a topology is only sent with the first heartbeat")


def _check_joining(request: StreamsHeartbeat) -> None:
    if request.process_id is None:
        raise InvalidGroupRequestError("the first heartbeat must give a process id")
    if request.topology is None:
        raise InvalidGroupRequestError("the first heartbeat must give a topology")
    check_topology(request.topology)
