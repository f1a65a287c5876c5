"""Names in the bodies that are written by hand, Produce and Fetch, of a tenant's client.

Other messages are translated by `goqueue.protocols.kafka.namespaces`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.access.tenants.namespace import Namespace
    from goqueue.wire.kafka.fetch import FetchedTopic, FetchRequest
    from goqueue.wire.kafka.produce import PartitionResult, ProduceRequest, TopicResult


def produce_inside(request: ProduceRequest, namespace: Namespace) -> ProduceRequest:
    """A Produce request in the names inside."""
    transactional_id = request.transactional_id
    if transactional_id is not None:
        transactional_id = namespace.inside(transactional_id)
    topics = [_inside(each, namespace) for each in request.topics]
    return request._replace(transactional_id=transactional_id, topics=topics)


def fetch_inside(request: FetchRequest, namespace: Namespace) -> FetchRequest:
    """A Fetch request in the names inside."""
    return request._replace(
        topics=[_inside(each, namespace) for each in request.topics],
        forgotten=[_inside(each, namespace) for each in request.forgotten],
    )


def produced_outside(
    topics: Sequence[TopicResult], namespace: Namespace | None
) -> Sequence[TopicResult]:
    """The topics of an answer to Produce, as the client knows them."""
    if namespace is None:
        return topics
    return [
        _outside(each, namespace)._replace(
            partitions=[_told(result, namespace) for result in each.partitions]
        )
        for each in topics
    ]


def fetched_outside(
    topics: Sequence[FetchedTopic], namespace: Namespace | None
) -> Sequence[FetchedTopic]:
    """The topics of an answer to Fetch, as the client knows them."""
    return topics if namespace is None else [_outside(each, namespace) for each in topics]


def _inside(topic: Any, namespace: Namespace) -> Any:
    return topic if topic.name is None else topic._replace(name=namespace.inside(topic.name))


def _outside(topic: Any, namespace: Namespace) -> Any:
    return topic if topic.name is None else topic._replace(name=namespace.outside(topic.name))


def _told(result: PartitionResult, namespace: Namespace) -> PartitionResult:
    if result.error_message is None:
        return result
    return result._replace(error_message=namespace.text_outside(result.error_message))
