"""What there is of groups: which, how far each has read, and how old what it has not read is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from goqueue.client.link.codes import check_code
from goqueue.client.link.link import GROUP_KEY
from goqueue.model.errors import GoQueueError
from goqueue.model.topic_partition import TopicPartition
from goqueue.records import decode_rows
from goqueue.records.batch import HEADER_BYTES, peek_header
from goqueue.spark.kafka.waiting import look_at
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from goqueue.client.link.link import Link
    from goqueue.spark.kafka.cluster import Cluster

_LIST_GROUPS_VERSION: Final = 5
_OFFSET_FETCH_VERSION: Final = 8
_SHARE_OFFSETS_VERSION: Final = 0
AT_ONCE: Final = 100
"""Groups in one request."""
_LOOK_BYTES: Final = 64 * 1024
"""Of each partition: a batch that is longer is dated by its first record."""
_SHARE: Final = "share"


class GroupLine(NamedTuple):
    """A group in a list."""

    name: str
    kind: str
    """`classic`, `consumer` or `share`."""
    state: str


def list_groups(cluster: Cluster) -> list[GroupLine]:
    """Every group of the cluster, by name.

    Raises:
        SparkSourceError: a broker is unavailable, or refuses.
    """
    return cluster.retry("listing groups", lambda: _list_groups(cluster.link))


async def _list_groups(link: Link) -> list[GroupLine]:
    await link.describe(())  # or it would not be known who else there is
    found = {}
    for node in sorted(link.metadata.nodes):
        answer = await link.ask(ApiKey.LIST_GROUPS, _LIST_GROUPS_VERSION, node=node)
        check_code(answer.error_code, "listing groups")
        for each in answer.groups:
            line = GroupLine(each.group_id, each.group_type.lower(), each.group_state)
            found[line.name] = line
    return [found[name] for name in sorted(found)]


def committed(
    cluster: Cluster, groups: Sequence[GroupLine]
) -> dict[str, dict[TopicPartition, int]]:
    """How far each group has read: the first offset that it is not done with.

    Raises:
        SparkSourceError: a broker is unavailable, or refuses.
    """
    found: dict[str, dict[TopicPartition, int]] = {each.name: {} for each in groups}
    for at in range(0, len(groups), AT_ONCE):
        asking = partial(_some, cluster.link, groups[at : at + AT_ONCE])
        found |= cluster.retry("looking up offsets", asking)
    return found


async def _some(link: Link, groups: Sequence[GroupLine]) -> dict[str, dict[TopicPartition, int]]:
    found: dict[str, dict[TopicPartition, int]] = {}
    by_node = await link.coordinators(GROUP_KEY, [each.name for each in groups])
    for node, names in by_node.items():
        shared = [each.name for each in groups if each.kind == _SHARE and each.name in names]
        # Of share groups, this tells where they begin to read what they have not read yet.
        found |= await _offsets(link, node, names)
        for name, places in (await _share_offsets(link, node, shared)).items():
            found.setdefault(name, {}).update(places)
    return found


async def _offsets(link: Link, node: int, names: list[str]) -> dict[str, dict[TopicPartition, int]]:
    if not names:
        return {}
    answer = await link.ask(
        ApiKey.OFFSET_FETCH,
        _OFFSET_FETCH_VERSION,
        node=node,
        groups=[{"group_id": name, "topics": None} for name in names],
        require_stable=False,
    )
    found: dict[str, dict[TopicPartition, int]] = {}
    for group in answer.groups:
        places = found.setdefault(group.group_id, {})
        if group.error_code in {ErrorCode.group_id_not_found, ErrorCode.group_authorization_failed}:
            continue  # deleted meanwhile, or not ours to look at
        check_code(group.error_code, f"offsets of group {group.group_id!r}")
        for topic in group.topics:
            for each in topic.partitions:
                if not each.error_code and each.committed_offset >= 0:
                    places[TopicPartition(topic.name, each.partition_index)] = each.committed_offset
    return found


async def _share_offsets(
    link: Link, node: int, names: list[str]
) -> dict[str, dict[TopicPartition, int]]:
    if not names:
        return {}
    answer = await link.ask(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        _SHARE_OFFSETS_VERSION,
        node=node,
        groups=[{"group_id": name, "topics": None} for name in names],
    )
    found: dict[str, dict[TopicPartition, int]] = {}
    for group in answer.groups:
        places = found.setdefault(group.group_id, {})
        for topic in group.topics:
            for each in topic.partitions:
                if not each.error_code and each.start_offset >= 0:
                    places[TopicPartition(topic.topic_name, each.partition_index)] = (
                        each.start_offset
                    )
    return found


# --- How old -------------------------------------------------------------------------------------


def times_at(
    cluster: Cluster,
    ids: Mapping[str, str],
    places: Iterable[tuple[TopicPartition, int]],
    isolation: int,
) -> dict[tuple[TopicPartition, int], int]:
    """When the messages at some offsets, or the first ones behind them, were written, in ms.

    Raises:
        SparkSourceError: a broker is unavailable, or refuses.
    """
    found: dict[tuple[TopicPartition, int], int] = {}
    waiting = set(places)
    while waiting:
        # A request has room for one offset of a partition.
        one_each = dict(sorted(waiting, reverse=True))
        waiting -= set(one_each.items())
        asking = partial(
            look_at,
            cluster.link,
            ids,
            one_each,
            _time_in,
            isolation=isolation,
            look_bytes=_LOOK_BYTES,
        )
        times = cluster.retry("looking at messages", asking)
        found |= {(place, one_each[place]): at_ms for place, at_ms in times.items()}
    return found


def _time_in(records: Any, offset: int) -> int | None:
    """The time of the first record from an offset on; None where there is none."""
    at = 0
    while records is not None and len(records) - at >= HEADER_BYTES:
        info = peek_header(records, at)
        if info.last_offset >= offset and not info.is_control:
            whole = records[at : at + info.size_bytes]
            if info.is_log_append_time:
                return info.max_timestamp
            if len(whole) < info.size_bytes:
                return info.base_timestamp
            try:
                rows = [each for each in decode_rows(bytes(whole)) if each.offset >= offset]
            except GoQueueError:
                return info.base_timestamp
            if rows:
                return rows[0].timestamp_ms
        at += info.size_bytes
    return None
