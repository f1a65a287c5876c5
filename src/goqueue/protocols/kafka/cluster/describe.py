"""The nodes and what they hold: DescribeCluster and DescribeLogDirs."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.kafka.access.operations import NO_OPERATIONS, cluster_operations
from goqueue.protocols.kafka.registry import api
from goqueue.protocols.kafka.rights import ANYONE, DESCRIBE, cluster
from goqueue.protocols.kafka.turns import Each, encode_in_turns
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.partitions.partition import Partition
    from goqueue.protocols.kafka.brokers import Brokers
    from goqueue.protocols.kafka.context import RequestContext
    from goqueue.topics.catalogue import Topic
    from goqueue.wire.kafka.frames import Response
    from goqueue.wire.kafka.reading import Struct

_BROKERS: Final = 1


def _no_log_dirs(_ctx: RequestContext, _request: Struct, code: ErrorCode) -> Response:
    return {"error_code": code, "results": []}


class ClusterApi:
    """Describes the cluster, and the disk of this node."""

    def __init__(self, broker: Broker, brokers: Brokers) -> None:
        self._broker = broker
        self._brokers = brokers

    @api(ApiKey.DESCRIBE_CLUSTER, right=ANYONE)
    def describe_cluster(self, ctx: RequestContext, request: Struct) -> Response:
        """Who is there, and who decides."""
        if request.endpoint_type != _BROKERS:
            return {
                "error_code": ErrorCode.unsupported_endpoint_type,
                "error_message": "there are no controllers to talk to, only brokers",
                "cluster_id": "",
                "controller_id": -1,
                "brokers": [],
                "cluster_authorized_operations": NO_OPERATIONS,
            }
        return {
            "error_code": ErrorCode.none,
            "error_message": None,
            "endpoint_type": _BROKERS,
            "cluster_id": self._broker.settings.cluster_id,
            "controller_id": self._brokers.controller_id(ctx.listener_name),
            "brokers": [
                {
                    "broker_id": each.node_id,
                    "host": each.host,
                    "port": each.port,
                    "rack": each.rack,
                    "is_fenced": False,
                }
                for each in self._brokers.all(ctx.listener_name)
            ],
            "cluster_authorized_operations": cluster_operations(
                ctx.may, asked=request.include_cluster_authorized_operations
            ),
        }

    @api(ApiKey.DESCRIBE_LOG_DIRS, right=cluster(DESCRIBE), on_error=_no_log_dirs)
    async def describe_log_dirs(self, ctx: RequestContext, request: Struct) -> Response:
        """How large the partitions are, and how much room there is."""
        by_name = self._broker.topics.catalogue.by_name
        if request.topics is None:
            asked = [(topic, set(range(topic.partition_count))) for topic in by_name.values()]
        else:
            numbers: defaultdict[str, set[int]] = defaultdict(set)
            for each in request.topics:
                if each.topic in by_name:
                    numbers[each.topic].update(each.partitions)
            asked = [(by_name[name], wanted) for name, wanted in numbers.items()]
        usage = self._broker.disk.usage(self._broker.settings.data_dir)
        answer = {
            "error_code": ErrorCode.none,
            "results": [
                {
                    "error_code": ErrorCode.none,
                    "log_dir": str(self._broker.settings.data_dir),
                    "topics": Each(asked, lambda each: self._sizes(*each)),
                    "total_bytes": usage.total_bytes,
                    "usable_bytes": usage.free_bytes,
                    "is_cordoned": False,
                }
            ],
        }
        return await encode_in_turns(ctx, answer)

    def _sizes(self, topic: Topic, numbers: set[int]) -> dict[str, Any]:
        ids = [TopicPartition(topic.name, number) for number in sorted(numbers)]
        found = [each for each in map(self._broker.partitions.find, ids) if each is not None]
        return {"name": topic.name, "partitions": Each(found, _size)}


def _size(partition: Partition) -> dict[str, Any]:
    return {
        "partition_index": partition.id.partition,
        "partition_size": partition.size_bytes,
        "offset_lag": max(partition.high_watermark - partition.log_end, 0),
        "is_future_key": False,
    }
