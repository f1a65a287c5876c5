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

_clusters: OrderedDict[tuple[int, LinkSettings], Cluster] = OrderedDict()


def shared_cluster(settings: LinkSettings) -> Cluster:
    """The connections of this process to one cluster. A task has its worker to itself."""
    key = (os.getpid(), settings)  # a forked child must not talk over its parent's sockets
    found = _clusters.pop(key, None) or Cluster(settings)
    _clusters[key] = found
    while len(_clusters) > _MAX_CLUSTERS:
        _clusters.popitem(last=False)[1].close()
    return found
