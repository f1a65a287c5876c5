"""Batches on their way in that are too large to be opened on the event loop.

Most batches are never opened. Where a topic asks for it (headers that say how to deliver, keys of a
compacted topic, limits of timestamps, another compression), small ones are opened by `publish`
itself. Large ones are opened, and compressed anew, in a thread before they are published.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from goqueue.model.errors import BatchError, BatchTooLargeError, TopicError
from goqueue.publishing.delivery_headers import asks_to_be_opened, may_have_delivery_headers
from goqueue.publishing.rewrite import recompressed
from goqueue.records import admit
from goqueue.records.batch import BatchInfo, peek, validate
from goqueue.records.opening import SMALL, open_section

if TYPE_CHECKING:
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.batch_opener import BatchOpener
    from goqueue.partitions.partitions import Partitions
    from goqueue.publishing.requests import PublishRequest
    from goqueue.topics.settings import TopicSettings


class LargeBatches:
    """Finds such batches and opens them."""

    def __init__(self, partitions: Partitions, opener: BatchOpener) -> None:
        self._partitions = partitions
        self._opener = opener

    def includes(self, partition: TopicPartition, batch: memoryview) -> bool:
        """Whether a batch is to be opened before it is published.

        What is wrong with it otherwise, `publish` says, and opens nothing for that.
        """
        try:
            topic, _ = self._partitions.resolve(partition)
            settings = topic.settings
            if not settings.may_open and not asks_to_be_opened(batch):
                return False
            info = peek(batch)
            if info.size_bytes > settings.max_message_bytes or not _opens(settings, batch, info):
                return False
            open_section(batch, 0, info, SMALL)
        except BatchTooLargeError:
            return True
        except (BatchError, TopicError):
            return False
        return False

    async def opened(self, request: PublishRequest) -> PublishRequest:
        """The same request with the records of its batch, or with why they cannot be had."""
        topic, _ = self._partitions.resolve(request.partition)
        return await self._opener.run_large(partial(_opened, topic.settings, request))


def _opens(settings: TopicSettings, batch: memoryview, info: BatchInfo) -> bool:
    """Whether publishing opens the batch."""
    return settings.opens_all or may_have_delivery_headers(settings, batch, info)


def _opened(settings: TopicSettings, request: PublishRequest) -> PublishRequest:
    batch = request.batch
    try:
        info = peek(batch)
        validate(batch, 0, info)
        records = admit(batch)
        batch = memoryview(recompressed(settings, batch, info, records))
    except BatchError as error:
        return request._replace(records=error)
    return request._replace(batch=batch, records=records)
