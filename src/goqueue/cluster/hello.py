"""How two nodes know each other: one cluster, one secret, and which run of which node it is.

Both sides draw a nonce, and each proves by a keyed hash over both nonces and both names that it has
the cluster's secret, which itself never travels. A recorded exchange proves nothing to anybody: the
nonces of the next one are others.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final

import msgspec

from goqueue.model.errors import ClusterMismatchError
from goqueue.model.tuples import NamedTuple

FEATURE_LEVEL: Final = 1
"""What this program can do of what nodes do together."""
NONCE_BYTES: Final = 16
CALLER: Final = b"caller"
LISTENER: Final = b"listener"
"""Who proves: the proof of one side is of no use to the other."""


class NodeIdentity(msgspec.Struct):
    """Who this node is to the others."""

    cluster_id: str
    node_id: int
    secret: bytes = b""
    """Of the cluster, from `cluster.secret_file`."""
    incarnation: int = 0
    """Of this run; 0 until the node is registered."""
    level: int = FEATURE_LEVEL


class Greeting(NamedTuple):
    """What one side says of itself."""

    cluster_id: str
    node_id: int
    incarnation: int
    level: int
    nonce: bytes


def greeting_of(identity: NodeIdentity) -> Greeting:
    """What this node says of itself on a new connection."""
    return Greeting(
        identity.cluster_id,
        identity.node_id,
        identity.incarnation,
        identity.level,
        secrets.token_bytes(NONCE_BYTES),
    )


def proof(secret: bytes, side: bytes, caller: Greeting, listener: Greeting) -> bytes:
    """What only a node with the secret can compute, for this exchange and this side of it."""
    told = msgspec.msgpack.encode((side, caller, listener))
    return hmac.digest(hashlib.sha256(secret).digest(), told, "sha256")


def is_proven(
    given: bytes, secret: bytes, side: bytes, caller: Greeting, listener: Greeting
) -> bool:
    """Whether a proof is the right one; takes as long for a wrong one."""
    return hmac.compare_digest(given, proof(secret, side, caller, listener))


def check_cluster(mine: str, theirs: str, who: str) -> None:
    """Raise `ClusterMismatchError` for a node of another cluster."""
    if mine != theirs:
        raise ClusterMismatchError(
            f"{who} belongs to cluster {theirs!r}, this node to {mine!r}: check `cluster.peers` "
            "and the data folders"
        )
