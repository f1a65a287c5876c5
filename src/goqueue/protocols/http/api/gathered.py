"""Answers that all nodes of a cluster have a part in."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from goqueue.protocols.http.api.shapes import doc


class UnansweredNode(msgspec.Struct):
    """A node whose part is missing."""

    node_id: int
    error: Annotated[str, doc("Why.", "node 3 is away")]


Unanswered: TypeAlias = Annotated[
    list[UnansweredNode] | msgspec.UnsetType,
    doc("Nodes of the cluster whose part is missing; left out when there are none."),
]


class Gathered(msgspec.Struct, kw_only=True):
    """Of an answer that every node of a cluster has a part in."""

    unanswered: Unanswered = msgspec.UNSET


def is_gathered(kind: type[msgspec.Struct] | None) -> bool:
    """Whether an answer has room for the names of nodes that did not answer."""
    return kind is not None and "unanswered" in kind.__struct_fields__
