"""How far a stream has read, as Spark keeps it in the checkpoint.

    {"orders": {"id": "0f6b…", "offsets": {"0": 120, "1": 98}}}

The id tells a topic that was made anew from the one that was read before. Spark compares offsets as
text, and the same ones in another order would be news: names and numbers are always sorted.

Spark stores where a micro-batch ends, and that is where the next one begins. Where the first one
begins is nowhere: a query that is restarted in the middle of it is asked for its beginning again,
and `latest` is later by then. Nor is it where the first batch begins that reads a new partition. So
the ends of such batches say it, too, as `starts`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from goqueue.model.topic_partition import TopicPartition
from goqueue.spark.errors import OffsetsError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The offset of the next message to read, in each partition."""

    ids: Mapping[str, str]
    offsets: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    """In the end of a micro-batch: where it begins in partitions that it is the first to read."""

    @property
    def is_beginning(self) -> bool:
        """Nothing has been read yet."""
        return bool(self.starts) and self.starts == self.offsets

    def to_json(self) -> dict[str, Any]:
        """What Spark stores."""
        tree: dict[str, Any] = {
            topic: {"id": self.ids[topic], "offsets": {}} for topic in sorted(self.ids)
        }
        for name, places in (("offsets", self.offsets), ("starts", self.starts)):
            for topic, number in sorted(places):
                tree[topic].setdefault(name, {})[str(number)] = places[
                    TopicPartition(topic, number)
                ]
        return tree

    @classmethod
    def from_json(cls, tree: Any) -> StreamOffset:
        """What was stored.

        Raises:
            OffsetsError: it was not stored by this source.
        """
        ids: dict[str, str] = {}
        offsets: dict[TopicPartition, int] = {}
        starts: dict[TopicPartition, int] = {}
        try:
            for topic, entry in tree.items():
                ids[topic] = str(entry["id"])
                for number, offset in entry["offsets"].items():
                    offsets[TopicPartition(topic, int(number))] = int(offset)
                for number, offset in entry.get("starts", {}).items():
                    starts[TopicPartition(topic, int(number))] = int(offset)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise OffsetsError(
                "the checkpoint holds no offsets of this source: "
                f"{str(tree)[:200]}. A query that changes its source needs a new checkpoint"
            ) from error
        return cls(ids, offsets, starts)


def read_offsets(text: str | None) -> dict[TopicPartition, int]:
    """The offsets of one source of a query; none when it is not ours."""
    try:
        return dict(StreamOffset.from_json(json.loads(text or "")).offsets)
    except (OffsetsError, ValueError):
        return {}


def keep_least(found: dict[TopicPartition, int], offsets: Mapping[TopicPartition, int]) -> None:
    """Take in the offsets of another source; of a partition that both read, the smaller one."""
    for place, offset in offsets.items():
        found[place] = min(offset, found.get(place, offset))
