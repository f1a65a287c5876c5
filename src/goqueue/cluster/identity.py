"""Who this cluster is: an id made once, by whichever node is first, and kept for ever."""

from __future__ import annotations

import base64
import uuid
from typing import Final

from goqueue.cluster.metadata import ABSENT, Condition, MetadataStore, Put

CLUSTER_ID_KEY: Final = "cluster/id"


async def cluster_id(store: MetadataStore) -> str:
    """The id in the store; made now when there is none.

    The candidate is its own token: after an answer that was lost, the next reading tells whether it
    is the one that was kept.
    """
    while (entry := await store.get(CLUSTER_ID_KEY)) is None:
        candidate = new_uuid_text()
        await store.transact(
            [Condition(CLUSTER_ID_KEY, ABSENT)], [Put(CLUSTER_ID_KEY, candidate.encode())]
        )
    return entry.value.decode()


def new_uuid_text() -> str:
    """A random id as Kafka writes them: 22 characters of URL-safe base64, not starting with `-`."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
