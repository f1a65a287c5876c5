"""Connections that outlive a task: Spark uses its workers again, and a micro-batch is short."""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from goqueue.spark.kafka.cluster import Cluster

if TYPE_CHECKING:
    from goqueue.spark.kafka.settings import LinkSettings

_MAX_CLUSTERS: Final = 4
"""Kept a process; the one that was used longest ago is hung up on."""

_clusters: Final[dict[int, OrderedDict[LinkSettings, Cluster]]] = {}
"""By process: a forked child must not talk over its parent's sockets, nor close them."""


def shared_cluster(settings: LinkSettings) -> Cluster:
    """The connections of this process to one cluster. A task has its worker to itself."""
    own = _clusters.setdefault(os.getpid(), OrderedDict())
    found = own.pop(settings, None) or Cluster(settings)
    own[settings] = found
    while len(own) > _MAX_CLUSTERS:
        own.popitem(last=False)[1].close()
    return found


def close_shared() -> None:
    """Hang up on all of them, as the end of a worker does."""
    for cluster in _clusters.get(os.getpid(), {}).values():
        cluster.close()
