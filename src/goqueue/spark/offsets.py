"""How far a stream has read, as Spark keeps it in the checkpoint.

    {"orders": {"id": "0f6b…", "offsets": {"0": 120, "1": 98}}}

The id tells a topic that was made anew from the one that was read before. Spark compares offsets as
text, and the same ones in another order would be news: names and numbers are always sorted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from goqueue.spark.errors import OffsetsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from goqueue.spark.bounds import Place


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The offset of the next message to read, in each partition."""

    ids: Mapping[str, str]
    offsets: Mapping[Place, int]

    def to_json(self) -> dict[str, Any]:
        """What Spark stores."""
        return {
            topic: {
                "id": self.ids[topic],
                "offsets": {
                    str(number): self.offsets[topic, number] for number in self._numbers(topic)
                },
            }
            for topic in sorted(self.ids)
        }

    def _numbers(self, topic: str) -> Iterable[int]:
        return sorted(number for name, number in self.offsets if name == topic)

    @classmethod
    def from_json(cls, tree: Any) -> StreamOffset:
        """What was stored.

        Raises:
            OffsetsError: it was not stored by this source.
        """
        ids: dict[str, str] = {}
        offsets: dict[Place, int] = {}
        try:
            for topic, entry in tree.items():
                ids[topic] = str(entry["id"])
                for number, offset in entry["offsets"].items():
                    offsets[topic, int(number)] = int(offset)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise OffsetsError(
                "the checkpoint holds no offsets of this source: "
                f"{str(tree)[:200]}. A query that changes its source needs a new checkpoint"
            ) from error
        return cls(ids, offsets)
