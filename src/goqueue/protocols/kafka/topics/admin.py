"""Making, growing and deleting topics. Every answer has one result for each topic asked for."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import (
    GoQueueError,
    InvalidAssignmentError,
)
from goqueue.protocols.kafka.configs.entries import given
from goqueue.protocols.kafka.configs.topic_configs import TopicResources
from goqueue.protocols.kafka.errors import ErrorCode, code_for
from goqueue.protocols.kafka.limits import MAX_CREATED_PARTITIONS
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import (
    ALTER,
    CLUSTER_CREATE,
    TOPIC_CREATE,
    TOPIC_DELETE,
    TOPIC_DESCRIBE_CONFIGS,
    all_of,
    each_topic,
    within,
)
from goqueue.protocols.kafka.throttling import Throttling
from goqueue.protocols.kafka.topic_ids import topic_with_id
from goqueue.protocols.kafka.turns import Each, encode_in_turns, in_turns, once_each
from goqueue.topics.replica_assignments import (
    ANYWHERE,
    Replication,
    check_assignments,
    check_factor,
)
from goqueue.topics.setting_table import LISTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.context import RequestContext
    from goqueue.topics.catalogue import Topic
    from goqueue.topics.setting import Setting
    from goqueue.wire.kafka.frames import Response
    from goqueue.wire.kafka.reading import Struct

_DEFAULT: Final = -1
_UNTOLD: Final = {"num_partitions": -1, "replication_factor": -1, "configs": []}
"""In place of what a topic is like, for those who may not know it."""
_BY_ID_FROM: Final = 6


def _not_grown(topic: Struct, code: ErrorCode) -> dict[str, Any]:
    return {"name": topic.name, "error_code": code, "error_message": None}


class AdminTopicsApi:
    """What administrators do to topics."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._configs = TopicResources(broker)
        self._throttling = Throttling(broker.quotas)

    def _admit(self, ctx: RequestContext, partition_count: int) -> None:
        """Count partitions that are created or deleted.

        Raises:
            RateLimitedError: `controller_mutation_rate` of the client is exceeded.
        """
        meter = self._throttling.meter(ctx.peer.session) if self._throttling.is_on else None
        if meter is not None:
            meter.admit_mutations(partition_count)

    # --- CreateTopics ----------------------------------------------------------------------------

    @api(
        ApiKey.CREATE_TOPICS,
        right=all_of(
            within(CLUSTER_CREATE, TOPIC_CREATE, note="each"),
            within(TOPIC_DESCRIBE_CONFIGS, note="to be told the settings"),
        ),
    )
    async def create_topics(self, ctx: RequestContext, request: Struct) -> Response:
        """Make topics, or say whether they could be made."""
        times = Counter(topic.name for topic in request.topics)
        topics = request.topics
        asked = sum(max(topic.num_partitions, len(topic.assignments), 1) for topic in topics)
        if asked > MAX_CREATED_PARTITIONS:
            message = f"{asked} partitions in one request, at most {MAX_CREATED_PARTITIONS} are"
            code = ErrorCode.policy_violation
            results = [_refused_topic(t.name, code, f"{message} made") for t in topics]
        else:
            results = [
                await self._create(
                    ctx, topic, twice=times[topic.name] > 1, dry=request.validate_only
                )
                async for topic in in_turns(topics)
            ]
        return await encode_in_turns(ctx, {"topics": results})

    async def _create(
        self, ctx: RequestContext, asked: Struct, *, twice: bool, dry: bool
    ) -> dict[str, Any]:
        may = ctx.may
        if twice:
            return _refused_topic(asked.name, ErrorCode.invalid_request, "named more than once")
        try:
            if not may.allows(CLUSTER_CREATE):
                may.require(TOPIC_CREATE, asked.name)
            overrides = given(asked)
            count, replication = self._partitions(asked)
            if dry:
                topic = self._broker.topics.plan(
                    asked.name, count, overrides, replication=replication
                )
            else:
                self._admit(ctx, count)
                topic = await self._broker.create_topic(asked.name, count, overrides, replication)
        except GoQueueError as error:
            return _refused_topic(asked.name, code_for(error), str(error))
        answer = {
            "name": topic.name,
            "topic_id": topic.topic_id,
            "error_code": ErrorCode.none,
            "error_message": None,
        }
        if not may.allows(TOPIC_DESCRIBE_CONFIGS, topic.name):
            code = ErrorCode.topic_authorization_failed
            return {**answer, **_UNTOLD, "topic_config_error_code": code}
        return {
            **answer,
            "topic_config_error_code": ErrorCode.none,
            "num_partitions": topic.partition_count,
            "replication_factor": topic.replication_factor,
            "configs": Each(LISTED, partial(self._config, topic)),
        }

    def _config(self, topic: Topic, setting: Setting) -> dict[str, Any]:
        return {
            "name": setting.name,
            "value": topic.settings.text(setting.name),
            "read_only": False,
            "config_source": self._configs.synonyms(topic, setting)[0].source,
            "is_sensitive": False,
        }

    def _partitions(self, asked: Struct) -> tuple[int, Replication]:
        """How many partitions a topic is to have, and of how many replicas or on which nodes."""
        if asked.assignments:
            assigned = sorted(asked.assignments, key=lambda each: int(each.partition_index))
            numbers = [each.partition_index for each in assigned]
            replicas = [each.broker_ids for each in assigned]
            self._check_assignments(replicas)
            if numbers != list(range(len(numbers))):
                raise InvalidAssignmentError(f"partitions {numbers}, expected 0 to n without gaps")
            return len(numbers), Replication(assignments=replicas)
        factor = None if asked.replication_factor == _DEFAULT else asked.replication_factor
        if not self._broker.facts.is_cluster:
            check_factor(factor)
        count = asked.num_partitions
        if count == _DEFAULT:
            count = self._broker.settings.default_partitions
        return int(count), Replication(factor=factor)

    def _check_assignments(
        self, replicas: Sequence[Sequence[int]], new_count: int | None = None
    ) -> None:
        """On one node; in a cluster they are checked against its nodes by whoever plans."""
        if not self._broker.facts.is_cluster:
            check_assignments(replicas, self._broker.settings.node_id, new_count)

    # --- DeleteTopics ----------------------------------------------------------------------------

    @api(ApiKey.DELETE_TOPICS, right=within(TOPIC_DELETE, note="each"))
    async def delete_topics(self, ctx: RequestContext, request: Struct) -> Response:
        """Delete topics, named by name or by id."""
        if ctx.version < _BY_ID_FROM:
            asked = [(name, None) for name in request.topic_names]
        else:
            asked = [(topic.name, topic.topic_id) for topic in request.topics]
        return {
            "responses": [
                await self._delete(ctx, name, topic_id) async for name, topic_id in in_turns(asked)
            ]
        }

    async def _delete(self, ctx: RequestContext, name: str | None, topic_id: Any) -> dict[str, Any]:
        may, catalogue = ctx.may, self._broker.topics.catalogue
        try:
            if name is not None:
                may.require(TOPIC_DELETE, name)
            if name not in catalogue.by_name and topic_id not in catalogue.by_id:
                await self._broker.topics.refresh()
            if name is None:
                found = topic_with_id(self._broker.topics, may, topic_id).name
                may.require(TOPIC_DELETE, found)
                name = found
            self._admit(ctx, self._broker.topics.catalogue.topic(name).partition_count)
            topic = await self._broker.delete_topic(name)
        except GoQueueError as error:
            return {
                "name": name,
                "topic_id": topic_id,
                "error_code": code_for(error),
                "error_message": str(error),
            }
        return {
            "name": topic.name,
            "topic_id": topic.topic_id,
            "error_code": ErrorCode.none,
            "error_message": None,
        }

    # --- CreatePartitions ------------------------------------------------------------------------

    @api(ApiKey.CREATE_PARTITIONS, right=each_topic(ALTER, _not_grown, answers="results"))
    async def create_partitions(self, ctx: RequestContext, request: Struct) -> Response:
        """Give topics more partitions."""
        times = Counter(topic.name for topic in request.topics)
        return {
            "results": [
                await self._grow(ctx, topic, twice=times[topic.name] > 1, dry=request.validate_only)
                async for topic in in_turns(once_each(request.topics, key=lambda t: t.name))
            ]
        }

    async def _grow(
        self, ctx: RequestContext, asked: Struct, *, twice: bool, dry: bool
    ) -> dict[str, Any]:
        answer = {"name": asked.name, "error_code": ErrorCode.none, "error_message": None}
        if twice:
            code = ErrorCode.invalid_request
            return {**answer, "error_code": code, "error_message": "named more than once"}
        if asked.name not in self._broker.topics.catalogue.by_name:
            await self._broker.topics.refresh()
        try:
            replication = ANYWHERE
            if asked.assignments is not None:
                replicas = [each.broker_ids for each in asked.assignments]
                replication = Replication(assignments=replicas)
            topic = self._broker.topics.plan_growth(asked.name, asked.count, replication)
            if replication.assignments is not None:
                new_count = asked.count - topic.partition_count
                self._check_assignments(replication.assignments, new_count)
            if not dry:
                self._admit(ctx, asked.count - topic.partition_count)
                await self._broker.grow_topic(asked.name, asked.count, replication)
        except GoQueueError as error:
            return {**answer, "error_code": code_for(error), "error_message": str(error)}
        return answer


def _refused_topic(name: str, code: ErrorCode, message: str) -> dict[str, Any]:
    return {
        "name": name,
        "topic_id": None,
        "error_code": code,
        "error_message": message,
        "topic_config_error_code": ErrorCode.none,
        **_UNTOLD,
    }
